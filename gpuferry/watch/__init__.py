"""Looking at servers while they work: `ferry top` and `ferry dashboard`."""
