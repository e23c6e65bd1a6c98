"""The Pulumi program: components and providers. Nothing else imports it."""
