/* Stands for NVIDIA's module: a version, a licence, and the file in /proc by which it is known. */
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

static struct proc_dir_entry *folder;

static int show(struct seq_file *file, void *unused)
{
	seq_printf(file, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  %s  Mon Nov 30 00:00:00 UTC 2026\n",
		   THIS_MODULE->version);
	return 0;
}

static int __init stand_in_init(void)
{
	folder = proc_mkdir("driver/nvidia", NULL);
	if (!folder || !proc_create_single("version", 0444, folder, show))
		return -ENOMEM;
	return 0;
}

static void __exit stand_in_exit(void)
{
	proc_remove(folder);
}

module_init(stand_in_init);
module_exit(stand_in_exit);
MODULE_DESCRIPTION("stand-in for NVIDIA's module");
MODULE_LICENSE("NVIDIA");
MODULE_VERSION("@VERSION@");
