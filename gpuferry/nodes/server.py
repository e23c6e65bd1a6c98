"""A server as every tool sees it: an address, a user and one pinned host key."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class Server(BaseModel):
    """What a provider gives back for one server; the same fields for every provider."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    address: str
    port: int = 22
    user: str
    host_key: str = Field(description="public host key, `ssh-ed25519 AAAA…`, the only one accepted")
    private_address: str
    instance_id: str = Field(description="changes whenever the system is made anew")
    provider_facts: dict[str, str] = Field(default_factory=dict)
    private_key: SecretStr = Field(description="OpenSSH private key that `user` logs in with")

    @property
    def sudo_advice(self) -> str:
        """What is wrong, and the cure, when `user` may not become root."""
        return (
            f"the user {self.user} cannot use sudo without a password. Allow it with the line "
            f"'{self.user} ALL=(ALL) NOPASSWD:ALL' in /etc/sudoers.d/gpuferry on the server."
        )

    @property
    def known_hosts_line(self) -> str:
        """The known_hosts line that pins this server, keyed by its name (HostKeyAlias)."""
        return f"{self.name} {self.host_key}"
