"""A real S3 server on loopback (moto), which checks keys, for as long as standard input is open.

The first line of output says where it is and with which key. Then each line of input is a list that
says what somebody else does to the bucket, past the server, and each line of output what came of it.
"""

import datetime
import json
import logging
import os
import sys
import threading

import boto3
from moto import settings
from moto.core.authorization import ActionAuthenticatorMixin
from moto.s3.models import s3_backends
from moto.server import ThreadedMotoServer

logging.getLogger("werkzeug").setLevel(logging.ERROR)
requests = []
hanging = threading.Event()
going_on = threading.Event()


def watched(application):
    def answer(environ, start):
        requests.append(environ["REQUEST_METHOD"] + " " + environ["PATH_INFO"])
        if hanging.is_set():
            going_on.wait()
        return application(environ, start)

    return answer


def key(iam):
    everything = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [everything]})
    iam.create_user(UserName="outrigger")
    iam.put_user_policy(UserName="outrigger", PolicyName="all", PolicyDocument=policy)
    made = iam.create_access_key(UserName="outrigger")["AccessKey"]
    return made["AccessKeyId"], made["SecretAccessKey"]


def buckets():
    found = {}
    for account in s3_backends.values():
        for backend in account.values():
            found.update(backend.buckets)
    return found


def do(client, word, bucket, name=None, value=None):
    if word == "make":
        client.create_bucket(Bucket=bucket)
    elif word == "hang":
        (hanging.set if bucket else hanging.clear)()
        (going_on.clear if bucket else going_on.set)()
    elif word == "requests":
        said = list(requests)
        requests.clear()
        return said
    elif word == "keys":
        return sorted(buckets()[bucket].keys.keys())
    elif word == "put":
        client.put_object(Bucket=bucket, Key=name, Body=value.encode())
    elif word == "remove":
        client.delete_object(Bucket=bucket, Key=name)
    elif word == "age":
        hours = datetime.timedelta(hours=value)
        buckets()[bucket].keys[name].last_modified -= hours
    return None


def main():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    server._server.app = watched(server._server.app)
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    words = {"endpoint_url": endpoint, "region_name": "us-east-1"}
    anybody = {"aws_access_key_id": "nobody", "aws_secret_access_key": "nothing"}
    access, secret = key(boto3.client("iam", **words, **anybody))
    settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
    ActionAuthenticatorMixin.request_count = 0
    own = {"aws_access_key_id": access, "aws_secret_access_key": secret}
    client = boto3.client("s3", **words, **own)
    print(json.dumps({"endpoint": endpoint, "key": access, "secret": secret}), flush=True)
    for line in sys.stdin:
        print(json.dumps(do(client, *json.loads(line))), flush=True)
    # Requests that hang would keep it.
    os._exit(0)


main()
