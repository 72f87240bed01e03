"""S3, Google Cloud Storage and Azure for Zephon, through obstore."""
