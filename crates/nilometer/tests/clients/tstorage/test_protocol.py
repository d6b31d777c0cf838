"""The protocol of TStorage, from its description alone: byte layouts, counts of bytes, boxes, stamps, errors."""

import os
import socket
import ssl
import struct
import unittest

# A certificate that the server shows and the client too, with its key: TLS is spoken then.
CERTIFICATE, KEY_FILE = os.environ.get("TSTORAGE_CERTIFICATE"), os.environ.get("TSTORAGE_KEY")
HOST, PORT = os.environ["TSTORAGE_ADDRESS"].rsplit(":", 1)
KEY = struct.Struct("<iqiqq")
HEADER = struct.Struct("<iQ")
GET, PUT, PUTA, GET_ACQ = 1, 5, 6, 7
LOW = (0, -(2**63), -(2**31), -(2**63), -(2**63))
HIGH = (2**31 - 1, 2**63 - 1, 2**31 - 1, 2**63 - 1, 2**63 - 1)


class Failed(Exception):
    """The server answered with an error."""


class Client:
    def __init__(self):
        self.socket = socket.create_connection((HOST, int(PORT)), timeout=60)
        if CERTIFICATE:
            context = ssl.create_default_context(cafile=CERTIFICATE)
            context.load_cert_chain(CERTIFICATE, KEY_FILE)
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        self.stream = self.socket.makefile("rwb")
        self.read_bytes = 0

    def close(self):
        self.stream.close()
        self.socket.close()

    def send(self, data):
        self.stream.write(data)
        self.stream.flush()

    def read(self, count):
        data = self.stream.read(count)
        if len(data) != count:
            raise Failed(f"{len(data)} bytes of {count}")
        self.read_bytes += count
        return data

    def header(self, size):
        status, got = HEADER.unpack(self.read(HEADER.size))
        if status != 0:
            raise Failed(status)
        assert got == size, (got, size)

    def get(self, low=LOW, high=HIGH):
        self.send(HEADER.pack(GET, 64) + KEY.pack(*low) + KEY.pack(*high))
        self.header(0)
        records = []
        while size := struct.unpack("<i", self.read(4))[0]:
            key = KEY.unpack(self.read(32))
            records.append((key, self.read(size - 32)))
        self.header(8)
        return sorted(records), struct.unpack("<q", self.read(8))[0]

    def get_acq(self, low=LOW, high=HIGH):
        self.send(HEADER.pack(GET_ACQ, 64) + KEY.pack(*low) + KEY.pack(*high))
        self.header(8)
        return struct.unpack("<q", self.read(8))[0]

    def put(self, batches, acq=None):
        """Batches are pairs of a client's id and records (mid, moid, cap, payload)."""
        data = HEADER.pack(PUT if acq is None else PUTA, 0)
        for cid, records in batches:
            body = b""
            for mid, moid, cap, payload in records:
                key = struct.pack("<qiq", mid, moid, cap)
                if acq is not None:
                    key += struct.pack("<q", acq)
                body += struct.pack("<i", len(key) + len(payload)) + key + payload
            data += struct.pack("<ii", cid, len(body)) + body
        self.send(data + struct.pack("<i", -1))
        self.header(16)
        return struct.unpack("<qq", self.read(16))


class Protocol(unittest.TestCase):
    def setUp(self):
        self.client = Client()
        self.addCleanup(self.client.close)

    def box(self, cid):
        return (cid, *LOW[1:]), (cid + 1, *HIGH[1:])

    def test_answers_have_exactly_the_bytes_of_their_records(self):
        payloads = [b"", b"a", bytes(range(256)) * 10]
        first, last = self.client.put([(101, [(1, 2, 3, payload) for payload in payloads])])
        self.assertEqual(last - first, 2)
        self.client.read_bytes = 0
        records, acq0 = self.client.get(*self.box(101))
        self.assertEqual(self.client.read_bytes, 36 + sum(36 + len(payload) for payload in payloads))
        self.assertEqual([(key[:4], payload) for key, payload in records], [((101, 1, 2, 3), payload) for payload in payloads])
        self.assertGreater(acq0, last)

    def test_an_empty_put_is_no_error(self):
        self.client.put([])
        self.client.put([(102, [])])
        self.assertEqual(self.client.get(*self.box(102))[0], [])

    def test_a_box_ends_below_its_maximum_in_each_component(self):
        records = [(mid, moid, cap, b"%d %d %d" % (mid, moid, cap)) for mid in (1, 2) for moid in (1, 2) for cap in (1, 2)]
        self.client.put([(103, records)], acq=7)
        found, _ = self.client.get((103, 1, 1, 1, 7), (104, 2, 2, 2, 8))
        self.assertEqual(found, [((103, 1, 1, 1, 7), b"1 1 1")])
        self.assertEqual(self.client.get((103, 1, 1, 1, 8), (104, 3, 3, 3, 9))[0], [])
        self.assertEqual(len(self.client.get((103, 1, 2, 1, 0), (104, 3, 3, 2, 8))[0]), 2)

    def test_a_copy_keeps_its_stamps(self):
        self.assertEqual(self.client.put([(104, [(1, 1, 1, b"x")])], acq=123456789), (-1, -1))
        self.assertEqual(self.client.get(*self.box(104))[0], [((104, 1, 1, 1, 123456789), b"x")])

    def test_below_acq0_nothing_is_added(self):
        seen = {}
        for n in range(20):
            self.client.put([(105, [(n, 0, 0, b"")])])
            low, high = self.box(105)
            records, acq0 = self.client.get(low, high)
            seen[acq0] = records
        for acq0, records in seen.items():
            self.assertEqual(self.client.get(low, (*high[:4], acq0))[0], records)

    def test_errors_end_the_connection(self):
        now = self.client.get_acq()
        for low, high in [
            ((-1, *LOW[1:]), HIGH),
            (HIGH, LOW),
            ((5, 0, 0, 0, 0), (5, 1, 1, 1, 1)),
            ((0, 0, 0, 0, now + 10**12), HIGH),
        ]:
            client = Client()
            self.addCleanup(client.close)
            client.send(HEADER.pack(GET, 64) + KEY.pack(*low) + KEY.pack(*high))
            self.assertEqual(client.stream.read(), HEADER.pack(-1, 0))

    def test_get_acq_may_ask_for_no_client(self):
        self.assertGreater(self.client.get_acq((0, 0, 0, 0, 0), (0, 0, 0, 0, 2**63 - 1)), 0)

    def test_large_payloads_stream_in_both_directions(self):
        payload = os.urandom(1 << 20) * 8
        records = [(n, 0, 0, payload) for n in range(8)]
        self.client.put([(106, records)])
        found, _ = self.client.get(*self.box(106))
        self.assertTrue(all(found_payload == payload for _, found_payload in found))
        self.assertEqual(len(found), 8)


if __name__ == "__main__":
    unittest.main()
