"""What commands read: generated files and the programs of sources/, the same on every machine."""

import gzip
import io
import json
import math
import random
import shutil
import sqlite3
import struct
import tarfile
import wave
import zipfile
import zlib

from places import HERE, INPUTS

VERSION = "6"
"""Another one makes all files anew."""


def make():
    """Makes all files, once."""
    mark = INPUTS / "version"
    if mark.exists() and mark.read_text() == VERSION:
        return
    shutil.rmtree(INPUTS, ignore_errors=True)
    shutil.copytree(HERE / "sources", INPUTS)
    chance = random.Random(1)
    vocabulary = ["".join(chance.choice("etaoinshrdlucm") for _ in range(chance.randint(2, 11))) for _ in range(6000)]
    lines = [" ".join(chance.choice(vocabulary) for _ in range(chance.randint(3, 14))) for _ in range(20000)]
    plain(lines, chance)
    put("keywords.txt", "\n".join(sorted(set(vocabulary))[:300:4]) + "\n")
    structured(chance, vocabulary)
    documents(lines)
    programs()
    media(chance)
    genome(chance)
    archives()
    database(vocabulary, chance)
    mark.write_text(VERSION)


def put(name, content):
    """Writes one file."""
    (INPUTS / name).write_bytes(content.encode() if isinstance(content, str) else content)


def plain(lines, chance):
    """Text, and two versions of it; columns; numbers."""
    put("text.txt", "\n".join(lines) + "\n")
    put("text2.txt", "\n".join(line for at, line in enumerate(lines) if at % 17) + "\n")
    put("small.txt", "\n".join(lines[:400]) + "\n")
    put("small2.txt", "\n".join(line[::-1] if at % 29 == 0 else line for at, line in enumerate(lines[:400])) + "\n")
    put("keyed.txt", "".join(f"{at * 7919 % 100003} word{at} {at % 97}\n" for at in range(60000)))
    put("numbers.txt", "".join(f"{chance.randint(1, 10**9)}\n" for _ in range(60000)))


def structured(chance, vocabulary):
    """JSON, CSV, XML, YAML, TOML, SQL."""
    rows = [
        {"id": at, "name": chance.choice(vocabulary), "tags": vocabulary[at % 500 :][:3], "x": chance.random()}
        for at in range(12000)
    ]
    put("rows.json", json.dumps(rows))
    put("small.json", json.dumps(rows[:300], indent=1))
    put("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    comma = [f"{row['id']},{row['name']},{row['tags'][0]},{row['x']:.6f}\n" for row in rows]
    put("rows.csv", "id,name,tag,x\n" + "".join(comma))
    put("small.csv", "id,name,tag,x\n" + "".join(comma[:500]))
    items = [f"<row id='{row['id']}'><name>{row['name']}</name><x>{row['x']:.4f}</x></row>\n" for row in rows]
    put("rows.xml", f"<?xml version='1.0'?>\n<rows>\n{''.join(items)}</rows>\n")
    entries = [f"- id: {row['id']}\n  name: {row['name']}\n  tags: [{', '.join(row['tags'])}]\n" for row in rows[:2000]]
    put("rows.yaml", "".join(entries))
    put("rows.toml", "".join(f'[row{row["id"]}]\nname = "{row["name"]}"\nx = {row["x"]:.4f}\n' for row in rows[:2000]))
    values = ",".join(f"({row['id']},'{row['name']}',{row['x']:.6f})" for row in rows)
    query = "select name, count(*), avg(x) from t group by name order by 2 desc, 1 limit 20;\n"
    table = "create table t(id integer, name text, x real);"
    put("rows.sql", f"{table} insert into t values {values}; create index i on t(name); {query}")


def documents(lines):
    """HTML, Markdown, reStructuredText, a man page, TeX, a graph, style sheets."""
    paragraphs = [" ".join(lines[at : at + 4]) for at in range(0, 2000, 4)]
    parts = list(enumerate(paragraphs))
    body = "".join(
        f"<h2 id='h{at}'>{at}</h2><p class='c{at % 7}'>{text} <a href='#h{at}'>a</a></p>" for at, text in parts
    )
    put("page.html", f"<!DOCTYPE html><html><head><title>t</title></head><body>{body}</body></html>\n")
    put(
        "doc.md", "# Title\n\n" + "".join(f"## Part {at}\n\n{text}\n\n* one *two*\n* `three`\n\n" for at, text in parts)
    )
    put("small.md", "# Title\n\n" + "".join(f"## Part {at}\n\n{text}\n\n" for at, text in parts[:20]))
    sections = "".join(f"Part {at}\n---------\n\n{text}\n\n* one *two*\n\n" for at, text in parts)
    put("doc.rst", f"Title\n=====\n\n{sections}")
    head = ".TH THING 1\n.SH NAME\nthing \\- does it\n.SH DESCRIPTION\n"
    put("thing.1", head + ".PP\nSome words in \\fBbold\\fR and more of them.\n" * 300)
    words = "Some more words of text.\\par\n" * 200
    put("doc.tex", f"\\documentclass{{article}}\\begin{{document}}\nWords $x^2$ here.\\par\n{words}\\end{{document}}\n")
    edges = [f"n{at} -> n{(at * 7 + 3) % 120}; n{at} -> n{(at * 5 + 1) % 120};" for at in range(120)]
    put("graph.dot", f"digraph g {{ rankdir=LR; {' '.join(edges)} }}\n")
    rules = [f".c{at} {{ color: #{at * 37 % 4096:03x}; margin: {at}px {at % 7}px; }}\n" for at in range(1500)]
    put("style.css", "".join(rules))
    nested = [f".c{at} {{ @include m($a * {at}); .d {{ top: {at}px; }} }}\n" for at in range(400)]
    put("style.scss", "$a: 3px;\n@mixin m($x) { margin: $x; }\n" + "".join(nested))


def programs():
    """Long ones in Python, JavaScript, C and make; the short ones are sources/."""
    python, script = ((INPUTS / name).read_text() for name in ("words.py", "main.js"))
    function = python.partition("if __name__")[0]
    put("many.py", "".join(function.replace("words", f"words{at}") for at in range(150)))
    renamed = [script.replace("total", f"total{at}").replace("const m =", f"const m{at} =") for at in range(80)]
    pieces = [text.replace("m.", f"m{at}.").replace("(m)", f"(m{at})") for at, text in enumerate(renamed)]
    put("many.js", "".join(pieces))
    loop = "for (int k = 0; k < n; k++) { if (k % %d) s += k * %d; else s ^= k; }".replace("k % %", "k %% %")
    body = [f"int f{at}(int n) {{ int s = {at}; {loop % (at % 7 + 2, at)} return s; }}\n" for at in range(400)]
    put("many.c", "#include <stdio.h>\n" + "".join(body))
    targets = [f"t{at}" for at in range(60)]
    put("Makefile", f"all: {' '.join(targets)}\n" + "".join(f"{name}:\n\t@echo {name}\n" for name in targets))


def media(chance):
    """An image as PPM, PNG and SVG; a sound."""
    width, height = 320, 200
    pixels = bytearray()
    for y in range(height):
        for x in range(width):
            wave_height = int(127 + 127 * math.sin(x * y / 900))
            pixels += bytes(((x * 255 // width) & 255, (y * 255 // height) & 255, wave_height & 255))
    put("image.ppm", f"P6 {width} {height} 255\n".encode() + bytes(pixels))
    lines = b"".join(b"\0" + bytes(pixels[y * width * 3 : (y + 1) * width * 3]) for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    put("image.png", b"\x89PNG\r\n\x1a\n" + data)
    sound = io.BytesIO()
    with wave.open(sound, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(22050)
        out.writeframes(b"".join(struct.pack("<h", int(9000 * math.sin(n * n / 40000))) for n in range(22050 * 3)))
    put("sound.wav", sound.getvalue())
    circles = [
        f"<circle cx='{chance.randint(0, 400)}' cy='{chance.randint(0, 400)}' r='{at % 40}' fill='#{at * 911 % 4096:03x}'/>"
        for at in range(300)
    ]
    put("image.svg", f"<svg xmlns='http://www.w3.org/2000/svg' width='400' height='400'>{''.join(circles)}</svg>\n")


def genome(chance):
    """A reference as FASTA, reads of it as FASTQ."""
    reference = "".join(chance.choice("ACGT") for _ in range(60000))
    lines = [reference[at : at + 60] for at in range(0, len(reference), 60)]
    put("genome.fa", ">one\n" + "\n".join(lines) + "\n")
    starts = [chance.randrange(len(reference) - 100) for _ in range(3000)]
    put("reads.fq", "".join(f"@r{at}\n{reference[start:][:100]}\n+\n{'I' * 100}\n" for at, start in enumerate(starts)))


def archives():
    """gzip, tar and zip of the text."""
    text = (INPUTS / "text.txt").read_bytes()
    put("text.gz", gzip.compress(text, mtime=0))
    pieces = [(f"d{at % 5}/f{at}.txt", text[at * 20000 : (at + 1) * 20000]) for at in range(40)]
    with tarfile.open(INPUTS / "files.tar", "w") as tar:
        for name, piece in pieces:
            entry = tarfile.TarInfo(name)
            entry.size = len(piece)
            tar.addfile(entry, io.BytesIO(piece))
    with zipfile.ZipFile(INPUTS / "files.zip", "w") as pack:
        for name, piece in pieces:
            pack.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), piece, zipfile.ZIP_DEFLATED)


def database(vocabulary, chance):
    """A small SQLite database."""
    db = sqlite3.connect(INPUTS / "rows.db")
    rows = [(at, chance.choice(vocabulary), chance.random()) for at in range(20000)]
    with db:
        db.execute("create table t(id integer primary key, name text, x real)")
        db.executemany("insert into t values (?, ?, ?)", rows)
    db.close()
