"""The conformance kit against an S3 server on the loopback interface."""

import pytest

from zephon_testkit import StorageTests


class TestObstoreOnS3(StorageTests):
    plugin = "obstore"
    bucket = None

    @pytest.fixture(autouse=True)
    def _served(self, bucket):
        type(self).bucket = bucket
        type(self).settings = {
            "endpoint_url": bucket.endpoint,
            "key": "kit-key-id",
            "secret": "kit-secret-key",
            "region": "us-east-1",
        }

    def root(self, folder):
        return f"s3://kit{folder.as_posix()}"

    def put(self, url, data):
        self.bucket.put(url, data)

    def get(self, url):
        return self.bucket.get(url)

    def delete(self, url):
        self.bucket.delete(url)
