"""The chosen servers into `Pulumi.<stack>.yaml`, with the rest of the file left as it is."""
