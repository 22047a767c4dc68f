"""The nine workloads: four pairs of malloc and free, five programs. Their inputs are made once and never differ."""

import json
import os
import random
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "bench"
EXAMPLES = ROOT / "build" / "examples"


@dataclass
class Workload:
    """A command that every variant runs."""

    name: str
    title: str
    command: list
    environment: dict = field(default_factory=dict)
    pair: bool = False
    """It prints its times itself, in nanoseconds a pair."""
    client: "Client | None" = None
    """Who uses it, where it is a server."""


@dataclass
class Client:
    """What is run beside a server, bare under each variant. All of it, and the server, run in the same directory."""

    ready: list
    """Succeeds when the server can be used."""
    work: list
    """Its time is the workload's wall time."""
    results: list
    """What it prints has to be the same under each variant."""
    end: list
    """Ends the server."""


class Missing(Exception):
    """What a workload or a variant needs and this machine lacks, and how to get it."""


def pair(name, title, size, threads, pairs):
    def make(quick):
        count = pairs // 10 if quick else pairs
        command = [str(BUILD / "pair"), str(size), str(threads), str(count)]
        return Workload(name, title, command, pair=True)

    return make


def stacks(quick):
    return Workload("stacks", "stacks", [str(EXAMPLES / "stacks"), "200" if quick else "1850"])


def sqlite(quick):
    shell = need("sqlite3", "apt-get install sqlite3")
    script = ROOT / "examples" / "sqlite" / "events.sql"
    if quick:
        text = script.read_text()
        script = write_once("events-quick.sql", lambda: text.replace("300000", "30000"))
    return Workload("sqlite", "sqlite", [shell, "-batch", ":memory:", f".read {script}"])


def python(quick):
    document = write_once("customers.json", customers)
    program = ROOT / "examples" / "python" / "parse_json.py"
    command = [sys.executable, str(program), str(document), "1" if quick else "4"]
    return Workload("python", "python", command, {"PYTHONMALLOC": "malloc"})


def customers():
    dice = random.Random(1)

    def customer(number):
        return {
            "id": number,
            "name": f"customer {number:06}",
            "email": f"customer{number}@example.org",
            "balance": round(dice.uniform(-10000, 10000), 2),
            "active": dice.random() < 0.5,
            "tags": [f"tag{dice.randrange(1000)}" for _ in range(dice.randrange(1, 8))],
            "address": {
                "street": f"{dice.randrange(300)} Long Street",
                "city": dice.choice(["Oslo", "Lima", "Kyoto", "Accra"]),
                "readings": [dice.randrange(1000000) for _ in range(6)],
            },
        }

    return json.dumps([customer(number) for number in range(22000)])


def cc1plus(quick):
    driver = need("g++", "apt-get install g++")
    source = ROOT / "examples" / "cpp" / "matches.cpp"
    options = ["-std=c++17", "-O0" if quick else "-O1"]
    expanded = BUILD / "input" / "matches.ii"
    if not expanded.exists():
        expanded.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([driver, *options, "-E", "-o", expanded, source], check=True)
    compiler = subprocess.run([driver, "-print-prog-name=cc1plus"], check=True, capture_output=True, text=True)
    command = [compiler.stdout.strip(), "-fpreprocessed", "-quiet", *options, "-o", os.devnull, str(expanded)]
    return Workload("cc1plus", "cc1plus", command)


def redis(quick):
    server = need("redis-server", "apt-get install redis-server")
    asks = [need("redis-cli", "apt-get install redis-tools"), "-s", "socket"]
    loads = [need("redis-benchmark", "apt-get install redis-tools"), "-s", "socket", "-q", "-c", "20", "-P", "8"]
    count = "30000" if quick else "300000"
    client = Client(
        ready=[*asks, "ping"],
        work=[*loads, "-n", count, "-r", "100000", "-d", "100", "-t", "set,get,incr,lpush,sadd,hset,zadd"],
        results=["sh", "-c", """"$@" info commandstats | grep -Eo '_(set|get|incr|lpush|sadd|hset|zadd):calls=[0-9]+' | sort
                                "$@" llen mylist""", "results", *asks],
        end=[*asks, "shutdown", "nosave"],
    )
    # Its socket's path is relative: one from the root may be longer than a socket's path can be.
    options = ["--port", "0", "--unixsocket", "socket", "--save", "", "--appendonly", "no", "--logfile", os.devnull]
    return Workload("redis", "redis", [server, *options], client=client)


ALL = {
    "pair-128": pair("pair-128", "128 B pair", 128, 1, 5_000_000),
    "pair-16k": pair("pair-16k", "16 KB pair", 16 << 10, 1, 5_000_000),
    "pair-1m": pair("pair-1m", "1 MB pair", 1 << 20, 1, 5_000_000),
    "pair-128-2": pair("pair-128-2", "128 B, 2 threads", 128, 2, 5_000_000),
    "stacks": stacks,
    "sqlite": sqlite,
    "python": python,
    "cc1plus": cc1plus,
    "redis": redis,
}


def need(program, command):
    """The path of a program, or Missing with the command that brings it."""
    path = shutil.which(program)
    if path is None:
        raise Missing(f"{program} is missing: {command}")
    return path


def write_once(name, text):
    path = BUILD / "input" / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".new")
        unfinished.write_text(text(), encoding="utf-8")
        unfinished.rename(path)
    return path
