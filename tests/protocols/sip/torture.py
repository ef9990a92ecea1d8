"""One message of our own for every case that RFC 4475 describes, by the RFC's names, with the reaction it asks for.

``VALID`` are to be understood and to be written again without loss. ``WRONG`` have a fault that the parser or the check
finds; ``REACTIONS`` say what a user agent or a registrar answers, as a status; None: nothing at all.
"""

SDP = "v=0\no=a 1 1 IN IP4 192.0.2.1\ns=-\nc=IN IP4 192.0.2.1\nt=0 0\nm=application 9 UDP/RUDP eci\n"


def message(start, *fields, body="", length=None, drop=(), end="\n\n"):
    """With what every message needs, unless a field of that name is given."""
    method = start.split(" ")[0]
    usual = {
        "Via": "SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bKtorture1",
        "Max-Forwards": "70",
        "From": "<sip:caller@example.net>;tag=t1",
        "To": "<sip:user@example.com>",
        "Call-ID": "torture@192.0.2.1",
        "CSeq": f"1 {'INVITE' if method.startswith('SIP/') else method}",
        "Contact": "<sip:caller@192.0.2.1>",
    }
    if body:
        usual["Content-Type"] = "application/sdp"
    raw = body.replace("\n", "\r\n").encode("utf-8", "surrogateescape")
    given = {field.split(":")[0].strip().lower() for field in fields}
    lines = [start] + [f"{name}: {value}" for name, value in usual.items() if name.lower() not in given | set(drop)]
    lines += fields
    if "content-length" not in given and "l" not in given and "content-length" not in drop:
        lines.append(f"Content-Length: {len(raw) if length is None else length}")
    return ("\n".join(lines) + end).replace("\n", "\r\n").encode("utf-8", "surrogateescape") + raw


WSINV = message(
    "INVITE sip:user@example.com;unknownparam SIP/2.0",
    "TO :\n sip:user@example.com ;   tag    = 1918181833n",
    'from   : "J \\"R\\" \\\\\\""       <sip:caller@example.com>\n  ;\n  tag = 98asjd8',
    "MaX-fOrWaRdS: 0068",
    "Call-ID: wsinv.ndaksdj@192.0.2.1",
    "Content-Length   : 0",
    "cseq: 0009\n  INVITE",
    "Via  : SIP  /   2.0\n /UDP\n    192.0.2.2;branch=390skdjuw",
    "s :",
    "NewFangledHeader:   newfangled value\n continued newfangled value",
    "UnknownHeaderWithUnusualValue: ;;,,;;,;",
    "Content-Type: application/sdp",
    "Route:\n <sip:services.example.com;lr;unknownwith=value;unknown-no-value>",
    "v:  SIP  / 2.0  / TCP     spindle.example.com   ;\n  branch  =   z9hG4bK9ikj8  ,\n"
    " SIP  /    2.0   / UDP  192.168.255.111   ; branch=\n z9hG4bK30239",
    'm:"Quoted string \\"\\"" <sip:caller@example.com> ; newparam =\n      newvalue ;\n  secondparam ; q = 0.33',
)
METHOD = "!interesting-Method0123456789_*+`.%indeed'~"
WEIRD = "sip:1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*:&it+has=1,weird!*pas$wo~d_too.(doesn't-it)@example.com"
INTMETH = message(
    f"{METHOD} {WEIRD} SIP/2.0",
    "Via: SIP/2.0/UDP host1.example.com:5060;branch=z9hG4bK-.!%66*_+`'~",
    f'To: "BEL:\\\x07 NUL:\\\x00 DEL:\\\x7f" <{WEIRD}>',
    "From: token1~` token2'+_ token3*%!.- <sip:mundane@example.com>;fromParam''~+*_!.-%=\"работающий\""
    ";tag=_token~1'+`*%!-.",
    "Call-ID: intmeth.word%ZK-!.*_+'@word`~)(><:\\/\"][?}{",
    f"CSeq: 139122385 {METHOD}",
    "Max-Forwards: 255",
    "extensionHeader-!.%*+_`'~: 大停電",
)
LONG = "unknownvalue" * 25
VALID = {
    "wsinv": WSINV,
    "intmeth": INTMETH,
    "esc01": message(
        "OPTIONS sip:sips%3Auser%40example.com@example.net SIP/2.0",
        "To: sip:%75se%72@example.com",
        "From: <sip:I%20have%20spaces@example.net>;tag=938",
        "Contact: <sip:cal%6Cer@192.0.2.5;%6C%72;n%61me=v%61lue%25%34%31>",
    ),
    "escnull": message(
        "REGISTER sip:example.com SIP/2.0",
        "To: sip:null-%00-null@example.com",
        "From: sip:null-%00-null@example.com;tag=839923423",
        "Contact: <sip:%00@host5.example.com>",
        "Contact: <sip:%00%00@host5.example.com>",
    ),
    "esc02": message(
        "RE%47IST%45R sip:registrar.example.com SIP/2.0",
        'To: "%Z%45" <sip:resource@example.com>',
        'From: "%Z%45" <sip:resource@example.com>;tag=f232jadfj23',
        "Contact: <sip:alias1@host1.example.com>",
        "C%6Fntact: <sip:alias2@host2.example.com>",
        "Contact: <sip:alias3@host3.example.com>",
    ),
    "lwsdisp": message("OPTIONS sip:user@example.com SIP/2.0", "From: caller<sip:caller@example.com>;tag=323"),
    "longreq": message(
        f"INVITE sip:user@example.com;{LONG}={LONG} SIP/2.0",
        f'To: "I have a user name of {"extreme " * 40}proportion" <sip:user@example.com:6000;x{LONG}>',
        f"From: sip:{'amazinglylongcallername' * 10}@example.net;tag=12{'9' * 300};x{LONG}={LONG}",
        f"Call-ID: longreq.{'one' * 20}{'really' * 30}longcallid",
        f"Unknown-{'Long' * 30}-Name: {LONG}",
        *(f"Via: SIP/2.0/TCP sip{n}.example.com" for n in range(33, 0, -1)),
        f"v: SIP/2.0/TCP host.example.com;received=192.0.2.5;branch={LONG}",
        f"Contact: <sip:{'amazinglylongcallername' * 5}@host5.example.net>",
        body=SDP,
    ),
    "dblreq": message("OPTIONS sip:example.com SIP/2.0", body="")
    + message("INVITE sip:joe@example.com SIP/2.0", body=SDP),
    "semiuri": message("OPTIONS sip:user;par=u%40example.net@example.com SIP/2.0"),
    "transports": message(
        "OPTIONS sip:user@example.com SIP/2.0",
        *(
            f"Via: SIP/2.0/{name} t{n}.example.com;branch=z9hG4bKkdjuw{n}"
            for n, name in enumerate(("UDP", "SCTP", "TLS", "UNKNOWN", "TCP"))
        ),
    ),
    "mpart01": message(
        "MESSAGE sip:kumiko@example.org SIP/2.0",
        "Content-Type: multipart/mixed;boundary=7a9cbec02ceef655",
        body="--7a9cbec02ceef655\nContent-Type: text/plain\n\nHello\n--7a9cbec02ceef655\n"
        "Content-Type: application/octet-stream\n\n\udc80\udcff\x00\n--7a9cbec02ceef655--\n",
    ),
    "unreason": message("SIP/2.0 200 = 2**3 * 5**2 но сто девяносто девять - простое"),
    "noreason": message("SIP/2.0 100 "),
    "inv2543": message(
        "INVITE sip:UserB@example.com SIP/2.0",
        "Via: SIP/2.0/UDP iftgw.example.com",
        "From: <sip:+13035551111@ift.client.example.net;user=phone>",
        "Record-Route: <sip:UserB@example.com;maddr=ss1.example.com>",
        drop=("max-forwards",),
        body=SDP,
    ),
}

BIG = "36893488147419103232"
WRONG = {
    "badinv01": (400, message("INVITE sip:user@example.com SIP/2.0", "Via: SIP/2.0/UDP 192.0.2.15;;,;,,", body=SDP)),
    "badinv01b": (400, message("INVITE sip:user@example.com SIP/2.0", "Contact: <sip:joe@example.com>;;;;", body=SDP)),
    "clerr": (400, message("INVITE sip:user@example.com SIP/2.0", body=SDP, length=9999)),
    "ncl": (400, message("INVITE sip:user@example.com SIP/2.0", body=SDP, length=-999)),
    "scalar02": (400, message("REGISTER sip:example.com SIP/2.0", f"CSeq: {BIG} REGISTER")),
    "scalar02b": (400, message("REGISTER sip:example.com SIP/2.0", "Max-Forwards: 300")),
    "scalar02c": (
        400,
        message("REGISTER sip:example.com SIP/2.0", "Expires: 10000000000000000000000000000000000000000"),
    ),
    "scalar02d": (
        400,
        message("REGISTER sip:example.com SIP/2.0", f"Contact: <sip:user@host129.example.com>;expires={BIG}"),
    ),
    "scalarlg": (None, message("SIP/2.0 503 Service Unavailable", f"CSeq: {BIG} INVITE", "Retry-After: 9494949494949")),
    "quotbal": (
        400,
        message("INVITE sip:user@example.com SIP/2.0", 'To: "Mr. J. User <sip:j.user@example.com>', body=SDP),
    ),
    "ltgtruri": (400, message("INVITE <sip:user@example.com> SIP/2.0", body=SDP)),
    "lwsruri": (400, message("INVITE sip:user@example.com; lr SIP/2.0", body=SDP)),
    "lwsstart": (400, message("INVITE  sip:user@example.com  SIP/2.0", "CSeq: 1 INVITE", body=SDP)),
    "trws": (400, message("OPTIONS sip:remote-target@example.com SIP/2.0  ")),
    "escruri": (400, message("INVITE sip:user@example.com?Route=%3Csip:example.com%3E SIP/2.0", body=SDP)),
    "baddate": (400, message("INVITE sip:user@example.com SIP/2.0", "Date: Fri, 01 Jan 2010 16:00:00 EST", body=SDP)),
    "regbadct": (
        400,
        message("REGISTER sip:example.com SIP/2.0", "Contact: sip:user@example.com?Route=%3Csip:sip.example.com%3E"),
    ),
    "badaspec": (
        400,
        message("OPTIONS sip:user@example.org SIP/2.0", 'To: "Watson, Thomas" < sip:t.watson @example.org >'),
    ),
    "baddn": (
        400,
        message("OPTIONS sip:user@example.org SIP/2.0", "From: Bell, Alexander <sip:a.g.bell@example.com>;tag=43"),
    ),
    "badvers": (505, message("OPTIONS sip:t.watson@example.org SIP/7.0")),
    "mismatch01": (400, message("OPTIONS sip:user@example.com SIP/2.0", "CSeq: 8 INVITE")),
    "mismatch02": (400, message("NEWMETHOD sip:user@example.com SIP/2.0", "CSeq: 8 INVITE")),
    "bigcode": (None, message("SIP/2.0 4294967301 better not break the receiver")),
    "insuf": (400, message("INVITE sip:user@example.com SIP/2.0", drop=("call-id", "from", "to"), body=SDP)),
    "unkscm": (416, message("OPTIONS nobodyKnowsThisScheme:totallyopaquecontent SIP/2.0")),
    "novelsc": (416, message("OPTIONS soap.beep://192.0.2.103:3002 SIP/2.0")),
    "multi01": (
        400,
        message(
            "INVITE sip:user@company.com SIP/2.0",
            "CSeq: 5 INVITE",
            "Call-ID: a@b",
            "CSeq: 59 INVITE",
            "Call-ID: c@d",
            "From: sip:a@b.com;tag=3",
            "From: sip:c@d.com;tag=4",
            "To: sip:a@b.com",
            "To: sip:c@d.com",
            body=SDP,
        ),
    ),
    "mcl01": (400, message("OPTIONS sip:user@example.com SIP/2.0", "Content-Length: 13", "Content-Length: 5")),
}
"""name: (the status that tells it, or None if it is ignored; the message)"""

OF_AGENT = {
    "wsinv": (481, VALID["wsinv"]),  # it has a To tag of a session that is not ours
    "intmeth": (501, VALID["intmeth"]),
    "esc01": (200, VALID["esc01"]),
    "esc02": (501, VALID["esc02"]),
    "lwsdisp": (200, VALID["lwsdisp"]),
    "longreq": ("incoming", VALID["longreq"]),
    "dblreq": (200, VALID["dblreq"]),
    "semiuri": (200, VALID["semiuri"]),
    "transports": (200, VALID["transports"]),
    "mpart01": (405, VALID["mpart01"]),
    "unreason": (None, VALID["unreason"]),
    "noreason": (None, VALID["noreason"]),
    "inv2543": ("incoming", VALID["inv2543"]),
    "badbranch": (
        200,
        message("OPTIONS sip:user@example.com SIP/2.0", "Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK"),
    ),
    "bext01": (
        420,
        message("OPTIONS sip:user@example.com SIP/2.0", "Require: nothingSupportsThis, nothingSupportsThisEither"),
    ),
    "invut": (
        415,
        message("INVITE sip:user@example.com SIP/2.0", "Content-Type: application/unknownformat", body="<audio/>\n"),
    ),
    "bcast": (
        None,
        message("SIP/2.0 200 OK", "Via: SIP/2.0/UDP 255.255.255.255;branch=z9hG4bK1saber23", "To: <sip:u@e.com>;tag=2"),
    ),
    "zeromf": (200, message("OPTIONS sip:user@example.com SIP/2.0", "Max-Forwards: 0")),
    "sdp01": (406, message("INVITE sip:user@example.com SIP/2.0", "Accept: text/nobodyKnowsThis", body=SDP)),
}
OF_REGISTRAR = {
    "escnull": (200, VALID["escnull"]),
    "unksm2": (
        416,
        message(
            "REGISTER sip:example.com SIP/2.0", "To: isbn:2983792873", "From: <http://www.example.com>;tag=3234233",
            "Contact: <name:John_Smith>",
        ),
    ),
    "regaut01": (
        401,
        message(
            "REGISTER sip:example.com SIP/2.0", "From: <sip:user@example.com>;tag=7",
            "Authorization: NoOneKnowsThisScheme opaque-data=here",
        ),
    ),
    "cparam01": (
        200,
        message(
            "REGISTER sip:example.com SIP/2.0", "From: <sip:user@example.com>;tag=7",
            "Contact: sip:+19725552222@gw1.example.net;unknownparam",
        ),
    ),
    "cparam02": (
        200,
        message(
            "REGISTER sip:example.com SIP/2.0", "From: <sip:user@example.com>;tag=7",
            "Contact: <sip:+19725552222@gw1.example.net;unknownparam>",
        ),
    ),
    "regescrt": (
        200,
        message(
            "REGISTER sip:example.com SIP/2.0", "From: <sip:user@example.com>;tag=7",
            "Contact: <sip:user@example.net?Route=%3Csip:sip.example.com%3E>",
        ),
    ),
}  # fmt: skip
