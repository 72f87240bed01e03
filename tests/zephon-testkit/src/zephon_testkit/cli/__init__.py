"""What stands behind ``zephon conformance`` and ``zephon new-plugin``; the core's command line leads here."""
