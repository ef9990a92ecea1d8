"""A real Kamailio on loopback, with a configuration written here: registrar and proxy, and a media proxy if asked."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest

CONFIG = """
debug=1
log_stderror=yes
fork=yes
children=1
disable_tcp=yes
auto_aliases=no
listen=udp:127.0.0.1:{port}
alias="lac.example"
loadmodule "tm.so"
loadmodule "sl.so"
loadmodule "rr.so"
loadmodule "pv.so"
loadmodule "maxfwd.so"
loadmodule "textops.so"
loadmodule "siputils.so"
loadmodule "usrloc.so"
loadmodule "registrar.so"
loadmodule "ctl.so"
{modules}
modparam("ctl", "binrpc", "unix:{control}")
modparam("usrloc", "db_mode", 0)
modparam("registrar", "max_contacts", 10)
modparam("registrar", "append_branches", 1)
modparam("registrar", "min_expires", 5)
modparam("tm", "fr_timer", 5000)
{parameters}
request_route {{
    if (!mf_process_maxfwd_header("10")) {{ sl_send_reply("483", "Too Many Hops"); exit; }}
    if (is_method("CANCEL")) {{ if (t_check_trans()) t_relay(); exit; }}
    if (is_method("REGISTER")) {{ {proof} save("location"); exit; }}
    {media}
    if (has_totag()) {{
        if (loose_route()) {{ t_on_reply("BACK"); t_relay(); }}
        else if (is_method("ACK") && t_check_trans()) t_relay();
        else if (!is_method("ACK")) sl_send_reply("404", "Not Here");
        exit;
    }}
    if (is_method("INVITE")) record_route();
    if (!lookup("location")) {{ sl_send_reply("404", "Not Found"); exit; }}
    t_on_reply("BACK");
    t_relay();
}}
onreply_route[BACK] {{ {media_back} }}
"""
PROOF = 'if (!pv_www_authenticate("lac.example", "secret", "0")) { www_challenge("lac.example", "1"); exit; }'
RELAY = 'rtpengine_manage("replace-origin replace-session-connection");'


def needs(*programs):
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (Debian: kamailio, sip-tester, rtpengine-daemon)")


class Kamailio:
    def __init__(self, folder: Path, port: int, media_port: int | None = None, algorithm: str | None = None):
        """With a media port, rtpengine there relays data; with an algorithm, REGISTER needs the password ``secret``."""
        self.port, self._folder, self._control = port, folder, folder / "ctl.sock"
        config = folder / "kamailio.cfg"
        config.write_text(self._config(media_port, algorithm))
        self._log = (folder / "kamailio.log").open("wb")
        command = ["kamailio", "-DD", "-E", "-f", str(config), "-m", "32", "-M", "4", "-Y", str(folder)]
        command += ["-P", str(folder / "kamailio.pid")]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, start_new_session=True)
        self._wait()

    def _config(self, media_port, algorithm):
        modules, parameters = [], []
        if media_port:
            modules.append("rtpengine")
            parameters.append(f'modparam("rtpengine", "rtpengine_sock", "udp:127.0.0.1:{media_port}")')
        if algorithm:
            modules.append("auth")
            settings = {"algorithm": f'"{algorithm}"', "qop": '"auth"', "nonce_expire": "1"}
            parameters += [f'modparam("auth", "{name}", {value})' for name, value in settings.items()]
        return CONFIG.format(
            port=self.port,
            control=self._control,
            modules="\n".join(f'loadmodule "{one}.so"' for one in modules),
            parameters="\n".join(parameters),
            proof=PROOF if algorithm else "",
            media=f'if (is_method("INVITE|ACK|BYE")) {RELAY}' if media_port else "",
            media_back=RELAY if media_port else "return;",
        )

    def _wait(self):
        for _ in range(100):
            if self._process.poll() is None and self._control.exists() and self._ask("core.version").returncode == 0:
                return
            time.sleep(0.05)
        self.stop()
        raise AssertionError((self._folder / "kamailio.log").read_text()[-3_000:])

    def _ask(self, *words):
        command = ["kamcmd", "-s", f"unix:{self._control}", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)

    def contacts(self):
        """The addresses that it has for all users."""
        lines = self._ask("ul.dump").stdout.splitlines()
        return sorted(line.split("Address: ")[1].strip() for line in lines if "Address: " in line)

    def stop(self):
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
