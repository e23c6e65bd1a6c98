/* Stands for NVIDIA's second module. */
#include <linux/module.h>

static int __init stand_in_init(void)
{
	return 0;
}

static void __exit stand_in_exit(void)
{
}

module_init(stand_in_init);
module_exit(stand_in_exit);
MODULE_DESCRIPTION("stand-in for NVIDIA's second module");
MODULE_LICENSE("NVIDIA");
