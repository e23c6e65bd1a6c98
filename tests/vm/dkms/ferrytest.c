/* A module that does nothing: it stands for a driver that is built on the server. */
#include <linux/module.h>

static int __init ferrytest_init(void)
{
	pr_info("ferrytest: loaded\n");
	return 0;
}

static void __exit ferrytest_exit(void)
{
}

module_init(ferrytest_init);
module_exit(ferrytest_exit);
MODULE_DESCRIPTION("gpuferry's test module");
MODULE_LICENSE("GPL");
