"""The policy pack: rules of a team over what Pulumi is about to make."""
