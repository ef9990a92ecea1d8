"""SIPp with scenarios written here: as caller, with and without digest, and as the called side."""

import asyncio

SDP = """v=0
      o=sipp 53655765 {version} IN IP4 [local_ip]
      s=MD-ECI
      c=IN IP4 [local_ip]
      t=0 0
      m=application 17080 UDP/RUDP eci
      a=eci-version:1
      a=eci-device:sipp
      a=rudp-conn:9a3c01d2
"""

INVITE = """  <send retrans="100"{auth_start}><![CDATA[
      INVITE sip:broker@[remote_ip]:[remote_port] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      From: sipp <sip:sipp@lac.example>;tag=[pid]tag[call_number]
      To: broker <sip:broker@lac.example>{to_tag}
      Call-ID: [call_id]
      CSeq: {cseq} INVITE
      Contact: sip:sipp@[local_ip]:[local_port]
      Max-Forwards: 70{credentials}
      Content-Type: application/sdp
      Content-Length: [len]

      {sdp}
  ]]></send>
"""
IN_DIALOG = """  <send{retrans}><![CDATA[
      {method} [next_url] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      From: sipp <sip:sipp@lac.example>;tag=[pid]tag[call_number]
      To: broker <sip:broker@lac.example>[peer_tag_param]
      Call-ID: [call_id]
      CSeq: {cseq} {method}
      Max-Forwards: 70
      Content-Length: 0

  ]]></send>
"""
ANSWERED = """  <recv response="100" optional="true"></recv>
  <recv response="200" rrs="true"></recv>
"""
OK = """  <send{retrans}><![CDATA[
      SIP/2.0 200 OK
      [last_Via:]
      [last_From:]
      [last_To:]{tag}
      [last_Call-ID:]
      [last_CSeq:]
      [last_Record-Route:]
      Contact: <sip:[local_ip]:[local_port];transport=[transport]>
{body}  ]]></send>
"""
WITH_SDP = """      Content-Type: application/sdp
      Content-Length: [len]

      {sdp}
"""


def scenario(*parts):
    return '<?xml version="1.0" encoding="ISO-8859-1" ?>\n<scenario name="test">\n' + "".join(parts) + "</scenario>\n"


def invite(cseq, version, *, to_tag="", credentials=""):
    sdp = SDP.format(version=version)
    return INVITE.format(cseq=cseq, to_tag=to_tag, sdp=sdp, credentials=credentials, auth_start="")


def in_dialog(method, cseq):
    return IN_DIALOG.format(method=method, cseq=cseq, retrans="" if method == "ACK" else ' retrans="100"')


def caller(first=1):
    """A session, a change of it that is newer, one that is not, and the end."""
    tag = "[peer_tag_param]"
    return (
        ANSWERED + in_dialog("ACK", first)
        + invite(first + 1, 2, to_tag=tag) + ANSWERED + in_dialog("ACK", first + 1)
        + invite(first + 2, 2, to_tag=tag) + ANSWERED + in_dialog("ACK", first + 2)
        + in_dialog("BYE", first + 3) + '  <recv response="200"></recv>\n'
    )  # fmt: skip


CALLER = scenario(invite(1, 1), caller())
CALLER_WITH_PASSWORD = scenario(
    invite(1, 1),
    '  <recv response="401" auth="true"></recv>\n',
    in_dialog("ACK", 1),
    invite(2, 1, credentials="\n      [authentication username=sipp password=secret]"),
    caller(2),
)
CALLED = scenario(
    '  <recv request="INVITE"></recv>\n',
    OK.format(retrans=' retrans="100"', tag=";tag=[call_number]", body=WITH_SDP.format(sdp=SDP.format(version=1))),
    '  <recv request="ACK"></recv>\n',
    '  <recv request="INVITE"></recv>\n',
    OK.format(retrans=' retrans="100"', tag="", body=WITH_SDP.format(sdp=SDP.format(version=2))),
    '  <recv request="ACK"></recv>\n',
    '  <recv request="BYE"></recv>\n',
    OK.format(retrans="", tag="", body="      Content-Length: 0\n\n"),
)


async def run_sipp(folder, text, *arguments, host="127.0.0.1", seconds=60):
    """Play a scenario to its end; the output, and 0 if every call went as written."""
    path = folder / "scenario.xml"
    path.write_text(text)
    command = ["-sf", str(path), "-i", host, "-nostdin", "-timeout", f"{seconds}s", "-timeout_error", *arguments]
    process = await asyncio.create_subprocess_exec(
        "sipp", *command, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), seconds + 5)
    except BaseException:
        process.kill()
        await process.wait()
        raise
    return process.returncode, output.decode("utf-8", "replace")
