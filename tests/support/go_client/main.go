// Logs in as Pulumi's command plugin 1.2.1 does: the same library at the same version, its defaults, and one accepted
// host key. Usage: go_client ADDRESS USER KEYFILE HOSTKEY; prints what `id -un` said and the key exchange.
package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/crypto/ssh"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(address, user, keyFile, hostKey string) error {
	text, err := os.ReadFile(keyFile)
	if err != nil {
		return err
	}
	signer, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return err
	}
	pinned, _, _, _, err := ssh.ParseAuthorizedKey([]byte(hostKey))
	if err != nil {
		return err
	}
	client, err := ssh.Dial("tcp", address, &ssh.ClientConfig{
		User:              user,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback:   ssh.FixedHostKey(pinned),
		HostKeyAlgorithms: []string{pinned.Type()},
		Timeout:           15 * time.Second,
	})
	if err != nil {
		return err
	}
	defer client.Close()
	session, err := client.NewSession()
	if err != nil {
		return err
	}
	defer session.Close()
	out, err := session.Output("id -un")
	fmt.Print(string(out))
	return err
}
