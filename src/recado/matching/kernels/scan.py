"""JSON texts to columns, in machine code: one pass over the bytes, no Python object for an event.

The kernel reads only what it reads exactly as ``recado.model.codec.read_event`` does, and *leaves* every other text to
it, whole: CloudEvents, arrays, ``$time``, ``$number`` and ``$extensions``, escapes in names, integers beyond 64 bits,
whatever is near a limit, and all that is not the JSON of a good event. So no message and no rule about bad events
stands here twice. What it does read: an object of strings, numbers, booleans, nulls and objects of these, with names
that occur once.

Texts lie in ``data``, each followed by a zero byte, which no JSON contains: every loop ends there at the latest. Behind
them is room for strings that had escapes or are casefolded, at ``state[TOP]``, and for dotted names, from
``state[PATH]`` on.

A string or boolean of an attribute that filters know is a *word*. Words are remembered with their codes
(``recado.matching.scanner`` looks them up), so a cell is mostly one look into a hash table; a cell whose word is new
holds ``NEW - word`` until the code is known. Of a number the cell holds its kind, and the column of numbers its value;
one that takes more than an exact division or multiplication of 53 bits is noted in ``later`` instead.
"""

from __future__ import annotations

import numpy as np

from recado.matching.kernels.arrays import ArrayField, Arrays, opener, plain
from recado.matching.kernels.jit import inlined, lean, lean_jit
from recado.matching.kernels.texts import ALL, HIGHEST_BITS, LOWEST_BITS, ONE, ZERO, bytes_below, first_bytes
from recado.matching.kernels.unaligned import put_word, word_at
from recado.matching.kernels.verify_columns import CODE, FOLDED_TEXT, INSTANT, NUMBER, TEXT

STRING_KIND, NUMBER_KIND, BOOL_KIND, TIME_KIND = 0, 1, 2, 3
ABSENT, NEW = -1, -3
UNKNOWN_CODE = -3  # of a word that nobody has looked up

# roles of names
PLAIN, ID, TEXT_MEMBER, TIME_MEMBER, LEFT = 0, 1, 2, 3, 4
# columns of ``names``
NAME_HASH, NAME_START, NAME_LENGTH, ATTRIBUTE, ROLE, WANTS = 0, 1, 2, 3, 4, 5
NAME_COLUMNS = 6
# columns of ``words``
WORD_HASH, WORD_KEY, WORD_START, WORD_LENGTH = 0, 1, 2, 3
# ``state``
TOP, END, PATH, CODE_ROWS, NUMBER_ROWS, TEXT_ROWS, WORDS, POOL, STAMP, LATER, TOUCHED, MEMBERS = range(12)
STATE_SIZE = 12
# ``limits``
STRING_BYTES, NAME_BYTES, MOST_MEMBERS, DEEPEST, EVENT_BYTES, NEEDS_ID = range(6)
# columns of ``later``
LATER_ATTRIBUTE, LATER_EVENT, LATER_START, LATER_LENGTH = 0, 1, 2, 3

DONE, LEAVE, FULL = 0, 1, 2
NO_TIME = np.int64(-(1 << 63))
SEEN = 2048  # a power of two, more than twice as many as the members that a text may have
PROBES = 64
EXACT = np.uint64(1 << 53)
POWERS = np.array([10.0**k for k in range(23)])
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
HALF = np.uint64(32)
QUOTES, BACKSLASHES = np.uint64(0x2222222222222222), np.uint64(0x5C5C5C5C5C5C5C5C)
SPACES = np.uint64(0x2020202020202020)
DAY = 86_400_000_000
QUOTE, BACKSLASH, COMMA, COLON, MINUS, PLUS, POINT = 0x22, 0x5C, 0x2C, 0x3A, 0x2D, 0x2B, 0x2E
OPEN, CLOSE, ZERO_DIGIT, NINE = 0x7B, 0x7D, 0x30, 0x39


class Memory(Arrays):
    """What a scanner holds: names, words, limits, and work space. ``state`` has the tops of all that grows."""

    names = ArrayField(np.int64, 2)
    name_table = ArrayField(np.int32)
    name_pool = ArrayField(np.uint8)
    limits = ArrayField(np.int64)
    words = ArrayField(np.int64, 2)
    word_table = ArrayField(np.int32)
    pool = ArrayField(np.uint8)
    word_codes = ArrayField(np.int32)
    seen = ArrayField(np.int64, 2)
    stack = ArrayField(np.int64)
    touched = ArrayField(np.int64)
    state = ArrayField(np.int64)


class Cells(Arrays):
    """What becomes of texts; ``counts`` are the texts seen, the events among them and those that are left."""

    rows = ArrayField(np.int32, 2)
    codes = ArrayField(np.int32, 2)
    numbers = ArrayField(np.float64, 2)
    starts = ArrayField(np.int64, 2)
    lengths = ArrayField(np.int64, 2)
    ids = ArrayField(np.int64, 2)
    times = ArrayField(np.int64)
    owners = ArrayField(np.int32)
    left = ArrayField(np.int32)
    later = ArrayField(np.int64, 2)
    counts = ArrayField(np.int64)


open_memory = opener(Memory)
open_cells = opener(Cells)


@inlined
def hash_text(data, at, length, seed):
    """A hash of some bytes; equal bytes and seeds have equal ones."""
    value = (np.uint64(seed) + np.uint64(length)) * MULTIPLIER
    for k in range(0, length, 8):
        word = word_at(data, at + k)
        if length - k < 8:
            word &= first_bytes(length - k)
        value = (value ^ word) * MULTIPLIER
        value ^= value >> HALF
    return np.int64(value >> ONE)


@inlined
def same_bytes(left, at, right, other, length):
    for k in range(0, length, 8):
        mask = ALL if length - k >= 8 else first_bytes(length - k)
        if (word_at(left, at + k) ^ word_at(right, other + k)) & mask != ZERO:
            return False
    return True


@inlined
def past_space(data, at):
    while data[at] == 0x20 or data[at] == 0x0A or data[at] == 0x0D or data[at] == 0x09:
        at += 1
    return at


@lean
def character_bytes(data, at):
    """How many bytes the UTF-8 character at a byte of 0x80 and more has; 0 if that is none."""
    first, second = data[at], data[at + 1]
    if first < 0xC2 or first > 0xF4 or second & 0xC0 != 0x80:
        return 0
    if first < 0xE0:
        return 2
    if (first == 0xE0 and second < 0xA0) or (first == 0xED and second > 0x9F):
        return 0
    if data[at + 2] & 0xC0 != 0x80:
        return 0
    if first < 0xF0:
        return 3
    if (first == 0xF0 and second < 0x90) or (first == 0xF4 and second > 0x8F):
        return 0
    return 4 if data[at + 3] & 0xC0 == 0x80 else 0


@lean
def string_end(data, at):
    """Where the string that begins at ``at``, behind its quote, ends, and what it has: 1 other than ASCII, 2 escapes.

    A negative end if it is none. Escapes are stepped over; ``unescape`` says whether they are good.
    """
    has = 0
    while True:
        word = word_at(data, at)
        quote, escape = word ^ QUOTES, word ^ BACKSLASHES
        # The lowest bit that is set is right, whatever borrows do above it; a control character, zero too, is below 32.
        stops = ((quote - LOWEST_BITS) & ~quote) | ((escape - LOWEST_BITS) & ~escape) | ((word - SPACES) & ~word) | word
        stops &= HIGHEST_BITS
        if stops == ZERO:
            at += 8
            continue
        at += bytes_below(stops & (~stops + ONE))
        byte = data[at]
        if byte == QUOTE:
            return at, has
        if byte == BACKSLASH:
            has |= 2
            if data[at + 1] < 0x20:
                return np.int64(-1), has
            at += 2 if data[at + 1] < 0x80 else 1
        elif byte >= 0x80:
            has |= 1
            size = character_bytes(data, at)
            if size == 0:
                return np.int64(-1), has
            at += size
        else:
            return np.int64(-1), has


@lean
def hex_digits(data, at):
    """The number that four hexadecimal digits write, or -1."""
    value = 0
    for i in range(at, at + 4):
        byte = np.int64(data[i])
        if 0x30 <= byte <= 0x39:
            digit = byte - 0x30
        elif 0x41 <= (byte & 0xDF) <= 0x46:
            digit = (byte & 0xDF) - 0x37
        else:
            return -1
        value = value << 4 | digit
    return value


@lean
def unescape(data, at, end, top):
    """Write a string without its escapes from ``top`` on; where that ends, or -1 if an escape is no good."""
    while at < end:
        byte = data[at]
        if byte != BACKSLASH:
            data[top] = byte
            at += 1
            top += 1
            continue
        byte = data[at + 1]
        at += 2
        if byte == 0x75:  # u
            value = hex_digits(data, at)
            at += 4
            if 0xD800 <= value < 0xDC00 and data[at] == BACKSLASH and data[at + 1] == 0x75:
                low = hex_digits(data, at + 2)
                at += 6
                value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00) if 0xDC00 <= low < 0xE000 else -1
            if value < 0 or 0xD800 <= value < 0xE000 or at > end:
                return -1
            if value < 0x80:
                data[top] = value
                top += 1
            elif value < 0x800:
                data[top], data[top + 1] = 0xC0 | value >> 6, 0x80 | (value & 0x3F)
                top += 2
            elif value < 0x10000:
                data[top], data[top + 1] = 0xE0 | value >> 12, 0x80 | ((value >> 6) & 0x3F)
                data[top + 2] = 0x80 | (value & 0x3F)
                top += 3
            else:
                data[top], data[top + 1] = 0xF0 | value >> 18, 0x80 | ((value >> 12) & 0x3F)
                data[top + 2], data[top + 3] = 0x80 | ((value >> 6) & 0x3F), 0x80 | (value & 0x3F)
                top += 4
            continue
        if byte == 0x62:  # b
            byte = 0x08
        elif byte == 0x66:  # f
            byte = 0x0C
        elif byte == 0x6E:  # n
            byte = 0x0A
        elif byte == 0x72:  # r
            byte = 0x0D
        elif byte == 0x74:  # t
            byte = 0x09
        elif byte != QUOTE and byte != BACKSLASH and byte != 0x2F:
            return -1
        data[top] = byte
        top += 1
    return top


@lean
def read_number(data, at):
    """A JSON number: (where it ends, its value, is that the value, is it an integer); the end is -1 if it is none.

    Also if it is too large, or so far from one that its value might not be a normal float.
    """
    negative = data[at] == MINUS
    if negative:
        at += 1
    digits, exponent, cut = 0, 0, False
    value = ZERO
    first = at
    while ZERO_DIGIT <= data[at] <= NINE:
        if digits == 19:
            return np.int64(-1), 0.0, False, False
        value = value * np.uint64(10) + np.uint64(data[at] - ZERO_DIGIT)
        digits += 1
        at += 1
    if at == first or (data[first] == ZERO_DIGIT and at > first + 1):
        return np.int64(-1), 0.0, False, False
    integer = True
    if data[at] == POINT:
        integer = False
        at += 1
        first = at
        while ZERO_DIGIT <= data[at] <= NINE:
            if digits < 19:
                value = value * np.uint64(10) + np.uint64(data[at] - ZERO_DIGIT)
                digits += value != ZERO
                exponent -= 1
            else:
                cut = True
            at += 1
        if at == first or at > first + 250:
            return np.int64(-1), 0.0, False, False
    if data[at] == 0x65 or data[at] == 0x45:  # e, E
        integer = False
        at += 1
        falls = data[at] == MINUS
        if falls or data[at] == PLUS:
            at += 1
        first, power = at, 0
        while ZERO_DIGIT <= data[at] <= NINE:
            power = min(power * 10 + np.int64(data[at]) - ZERO_DIGIT, 1000)
            at += 1
        if at == first:
            return np.int64(-1), 0.0, False, False
        exponent += -power if falls else power
    if exponent < -280 or exponent > 280 or (integer and negative and value > np.uint64(1 << 63)):
        return np.int64(-1), 0.0, False, False
    number = np.float64(value)
    sure = value <= EXACT and -22 <= exponent <= 22 and not cut
    if sure and exponent < 0:
        number /= POWERS[-exponent]
    elif sure:
        number *= POWERS[exponent]
    return at, -number if negative else number, sure, integer


@inlined
def two_digits(data, at):
    """The number that two digits write, or -1."""
    high, low = np.int64(data[at]) - ZERO_DIGIT, np.int64(data[at + 1]) - ZERO_DIGIT
    return high * 10 + low if 0 <= high <= 9 and 0 <= low <= 9 else np.int64(-1)


@lean
def read_time(data, at, end):
    """Microseconds since 1970 of RFC 3339 text from 1900 to 2199; NO_TIME if it is not, or of another century."""
    if end - at < 20 or end - at > 90:
        return NO_TIME
    century, year, month, day = (
        two_digits(data, at), two_digits(data, at + 2), two_digits(data, at + 5), two_digits(data, at + 8)
    )  # fmt: skip
    hour, minute, second = two_digits(data, at + 11), two_digits(data, at + 14), two_digits(data, at + 17)
    if data[at + 4] != MINUS or data[at + 7] != MINUS or data[at + 13] != COLON or data[at + 16] != COLON:
        return NO_TIME
    if not (data[at + 10] == 0x54 or data[at + 10] == 0x74 or data[at + 10] == 0x20):
        return NO_TIME
    if not (19 <= century <= 21 and year >= 0 and 1 <= month <= 12 and day >= 1):
        return NO_TIME
    if not (0 <= hour <= 23 and 0 <= minute <= 59 and 0 <= second <= 59):
        return NO_TIME
    year += century * 100
    leaps = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    longest = 28 + leaps if month == 2 else 30 + ((month + (month >> 3)) & 1)
    if day > longest:
        return NO_TIME
    at += 19
    fraction, scale = 0, 100_000
    if data[at] == POINT:
        at += 1
        first = at
        while ZERO_DIGIT <= data[at] <= NINE:
            fraction += (np.int64(data[at]) - ZERO_DIGIT) * scale
            scale //= 10
            at += 1
        if at == first or at > first + 64:
            return NO_TIME
    offset = np.int64(0)
    if data[at] == PLUS or data[at] == MINUS:
        hours, minutes = two_digits(data, at + 1), two_digits(data, at + 4)
        if not (0 <= hours <= 23 and data[at + 3] == COLON and 0 <= minutes <= 59):
            return NO_TIME
        offset = (hours * 60 + minutes) * (-60_000_000 if data[at] == MINUS else 60_000_000)
        at += 6
    elif data[at] == 0x5A or data[at] == 0x7A:  # Z, z
        at += 1
    else:
        return NO_TIME
    if at != end:
        return NO_TIME
    if month <= 2:
        year -= 1
        month += 12
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day - 1 - 719_468
    return days * DAY + ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction - offset


@lean
def find_name(data, at, length, hashed, memory):
    """The row of a name, or -1."""
    names, table = memory.names, memory.name_table
    mask = table.shape[0] - 1
    slot = hashed & mask
    while table[slot] >= 0:
        row = table[slot]
        if names[row, NAME_HASH] == hashed and names[row, NAME_LENGTH] == length:
            if same_bytes(data, at, memory.name_pool, names[row, NAME_START], length):
                return np.int64(row)
        slot = (slot + 1) & mask
    return np.int64(-1)


@lean
def find_word(data, at, length, key, memory):
    """The number of a word of an attribute and kind (``key``), entered if it is new; -1 if there is no room."""
    words, table, pool, state = memory.words, memory.word_table, memory.pool, memory.state
    hashed = hash_text(data, at, length, key)
    mask = table.shape[0] - 1
    slot = hashed & mask
    while table[slot] >= 0:
        word = np.int64(table[slot])
        if words[word, WORD_HASH] == hashed and words[word, WORD_KEY] == key and words[word, WORD_LENGTH] == length:
            if same_bytes(data, at, pool, words[word, WORD_START], length):
                return word
        slot = (slot + 1) & mask
    word, start = state[WORDS], state[POOL]
    if word == words.shape[0] or start + length + 8 > pool.shape[0]:
        return np.int64(-1)
    table[slot] = word
    words[word, WORD_HASH], words[word, WORD_KEY] = hashed, key
    words[word, WORD_START], words[word, WORD_LENGTH] = start, length
    for k in range(0, length, 8):
        put_word(pool, start + k, word_at(data, at + k))
    state[WORDS] += 1
    state[POOL] += length
    return word


@lean
def row_of(attribute, which, counter, rows, matrix, blank, state):
    """The row of an attribute in one of the matrices, made blank if it is new; -1 if there is no room."""
    row = np.int64(rows[attribute, which])
    if row == 0:
        row = state[counter]
        if row == matrix.shape[0]:
            return np.int64(-1)
        state[counter] += 1
        rows[attribute, which] = row
        for event in range(matrix.shape[1]):
            matrix[row, event] = blank
    return row


@lean
def put_texts(wants, attribute, event, data, start, length, cells, state):
    """The text of a string, casefolded or not, where filters look into it; ASCII if casefolded. False: no room."""
    for which in (TEXT, FOLDED_TEXT):
        if wants & (1 if which == TEXT else 2):
            row = row_of(attribute, which, TEXT_ROWS, cells.rows, cells.starts, -1, state)
            if row < 0:
                return False
            if which == FOLDED_TEXT:
                top = state[TOP]
                for i in range(length):
                    low = data[start + i]
                    data[top + i] = low + 32 if 0x41 <= low <= 0x5A else low
                state[TOP] += length
                start = top
            cells.starts[row, event] = start
            cells.lengths[row, event] = length
    return True


@lean
def scan_text(data, at, end, event, memory, cells):
    """One text into the cells of one event: DONE, LEAVE it to the reader of events, or FULL: there is no room."""
    state, limits, names, stack, seen = memory.state, memory.limits, memory.names, memory.stack, memory.seen
    ids, times, rows, codes, later = cells.ids, cells.times, cells.rows, cells.codes, cells.later
    ids[event, 0] = -1
    ids[event, 1] = 0
    times[event] = NO_TIME
    if end - at > limits[EVENT_BYTES]:
        return LEAVE
    at = past_space(data, at)
    if data[at] != OPEN:
        return LEAVE
    at += 1
    depth, prefix, members = 0, 0, 0  # ``prefix``: so many bytes of the path are the names around
    path = state[PATH]
    after_comma = False
    while True:
        at = past_space(data, at)
        if data[at] == CLOSE and not after_comma:
            at = past_space(data, at + 1)
            if depth == 0:
                break
            depth -= 1
            prefix = stack[depth]
        else:
            if data[at] != QUOTE:
                return LEAVE
            name = at + 1
            close, has = string_end(data, name)
            length = close - name
            members += 1
            if close < 0 or has & 2 or prefix + length > limits[NAME_BYTES] or members > limits[MOST_MEMBERS]:
                return LEAVE
            if depth:
                if length and data[name] == 0x24:  # $time, $number
                    return LEAVE
                for i in range(length):
                    data[path + prefix + i] = data[name + i]
                name, length = path, length + prefix
            elif length == 0:
                return LEAVE
            hashed = hash_text(data, name, length, 0)
            slot, probes = hashed & (SEEN - 1), 0
            while seen[slot, 0] == state[STAMP]:
                if seen[slot, 1] == hashed or probes == PROBES:
                    return LEAVE
                slot = (slot + 1) & (SEEN - 1)
                probes += 1
            seen[slot, 0], seen[slot, 1] = state[STAMP], hashed
            known = find_name(data, name, length, hashed, memory)
            attribute, role = np.int64(-1), np.int64(PLAIN)
            if known >= 0:
                attribute, role = names[known, ATTRIBUTE], names[known, ROLE]
                if role == LEFT:
                    return LEAVE
            at = past_space(data, close + 1)
            if data[at] != COLON:
                return LEAVE
            at = past_space(data, at + 1)
            byte = data[at]
            kind, start, has, number, sure = ABSENT, at, 0, 0.0, True
            if byte == QUOTE:
                start = at + 1
                close, has = string_end(data, start)
                if close < 0 or close - start > limits[STRING_BYTES]:
                    return LEAVE
                at, length, kind = close + 1, close - start, STRING_KIND
                if has & 2:
                    top = unescape(data, start, close, state[TOP])
                    if top < 0:
                        return LEAVE
                    start, length = state[TOP], top - state[TOP]
                    state[TOP] = top
                if role == TIME_MEMBER:
                    times[event] = read_time(data, start, start + length)
                    if times[event] == NO_TIME:
                        return LEAVE
                    kind, number = TIME_KIND, np.float64(times[event])
                elif length == 0 and role != PLAIN:
                    kind = ABSENT
            elif byte == MINUS or ZERO_DIGIT <= byte <= NINE:
                at, number, sure, integer = read_number(data, start)
                length, kind = at - start, NUMBER_KIND
                if role == ID and integer and byte != MINUS:
                    kind = STRING_KIND
                elif role != PLAIN or at < 0:
                    return LEAVE
                if at < 0:
                    return LEAVE
            elif byte == OPEN:
                if role != PLAIN or depth + 2 > limits[DEEPEST] or length >= limits[NAME_BYTES]:
                    return LEAVE
                if depth == 0:
                    for i in range(length):
                        data[path + i] = data[name + i]
                stack[depth] = prefix
                depth += 1
                prefix = length + 1
                data[path + length] = POINT
                at += 1
                after_comma = False
                continue
            else:
                word = word_at(data, at)
                length = 5 if word & np.uint64(0xFFFFFFFFFF) == np.uint64(0x65736C6166) else 4  # false
                if length == 5 or word & np.uint64(0xFFFFFFFF) == np.uint64(0x65757274):  # true
                    kind = BOOL_KIND
                elif word & np.uint64(0xFFFFFFFF) != np.uint64(0x6C6C756E):  # null
                    return LEAVE
                if kind == BOOL_KIND and role != PLAIN:
                    return LEAVE
                at += length
            if role == ID and kind == STRING_KIND:
                ids[event, 0], ids[event, 1] = start, length
            if attribute >= 0 and kind >= 0:
                row = row_of(attribute, CODE, CODE_ROWS, rows, codes, ABSENT, state)
                if row < 0:
                    return FULL
                memory.touched[state[TOUCHED]] = attribute
                state[TOUCHED] += 1
                codes[row, event] = kind
                if kind == NUMBER_KIND or kind == TIME_KIND:
                    which = NUMBER if kind == NUMBER_KIND else INSTANT
                    row = row_of(attribute, which, NUMBER_ROWS, rows, cells.numbers, np.nan, state)
                    if row < 0:
                        return FULL
                    cells.numbers[row, event] = number
                    if not sure:
                        if state[LATER] == later.shape[0]:
                            return FULL
                        row = state[LATER]
                        later[row, LATER_ATTRIBUTE], later[row, LATER_EVENT] = attribute, event
                        later[row, LATER_START], later[row, LATER_LENGTH] = start, length
                        state[LATER] += 1
                else:
                    found = find_word(data, start, length, attribute << 2 | kind, memory)
                    if found < 0:
                        return FULL
                    code = np.int64(memory.word_codes[found])
                    codes[row, event] = code if code != UNKNOWN_CODE else NEW - found
                    if kind == STRING_KIND and names[known, WANTS]:
                        if has and names[known, WANTS] & 2:  # casefolding is more than lower case
                            return LEAVE
                        if not put_texts(names[known, WANTS], attribute, event, data, start, length, cells, state):
                            return FULL
            at = past_space(data, at)
        # behind a value
        after_comma = False
        if data[at] == COMMA:
            at += 1
            after_comma = True
        elif data[at] != CLOSE:
            return LEAVE
    if at != end:
        return LEAVE
    if ids[event, 1] == 0 and limits[NEEDS_ID]:
        return LEAVE
    return DONE


@lean_jit
def scan_texts(data, starts, ends, memory_handle, cells_handle):
    """Texts into events, and those that are left to the reader.

    It stops where there is no room for one more, unless that would be the first: which then is left.
    """
    memory, cells = open_memory(memory_handle), open_cells(cells_handle)
    data, starts, ends = plain(data), plain(starts), plain(ends)
    state, rows = memory.state, cells.rows
    events, many, text = 0, 0, 0
    while text < starts.shape[0]:
        state[STAMP] += 1
        state[TOUCHED] = 0
        before, top = state[LATER], state[TOP]
        result = scan_text(data, starts[text], ends[text], events, memory, cells)
        if result == DONE:
            cells.owners[events] = text
            events += 1
            text += 1
            continue
        state[LATER], state[TOP] = before, top
        for i in range(state[TOUCHED]):
            attribute = memory.touched[i]
            cells.codes[rows[attribute, CODE], events] = ABSENT
            for which in (NUMBER, INSTANT):
                if rows[attribute, which]:
                    cells.numbers[rows[attribute, which], events] = np.nan
            for which in (TEXT, FOLDED_TEXT):
                if rows[attribute, which]:
                    cells.starts[rows[attribute, which], events] = -1
        if result == FULL and text:
            break
        cells.left[many] = text
        many += 1
        text += 1
    cells.counts[0], cells.counts[1], cells.counts[2] = text, events, many


@lean_jit
def settle_words(codes, size, first, last, word_codes):
    """Put the codes into cells whose words are known now, in the rows from ``first`` up to ``last``."""
    for row in range(first, last):
        for event in range(size):
            if codes[row, event] <= NEW:
                codes[row, event] = word_codes[NEW - codes[row, event]]


@lean_jit
def settle_numbers(codes, row, numbers, number_row, size, kind, keys, key_codes):
    """The codes of numbers, or of instants, that equal a constant; ``keys`` are sorted."""
    for event in range(size):
        value = numbers[number_row, event]
        if codes[row, event] != kind or np.isnan(value):
            continue
        low, high = 0, keys.shape[0]
        while low < high:
            middle = (low + high) >> 1
            if keys[middle] < value:
                low = middle + 1
            else:
                high = middle
        if low < keys.shape[0] and keys[low] == value:
            codes[row, event] = key_codes[low]


@lean_jit
def enter_names(first, last, memory_handle):
    """Enter the rows from ``first`` up to ``last`` into the table of names."""
    memory = open_memory(memory_handle)
    names, table = memory.names, memory.name_table
    mask = table.shape[0] - 1
    for row in range(first, last):
        hashed = hash_text(memory.name_pool, names[row, NAME_START], names[row, NAME_LENGTH], 0)
        names[row, NAME_HASH] = hashed
        slot = hashed & mask
        while table[slot] >= 0:
            slot = (slot + 1) & mask
        table[slot] = row
