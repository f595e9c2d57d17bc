//! The lab's cable: a switch without uplink and one pair of interfaces per host, made with iproute2.

use super::Keeper;
use crate::LabError;
use crate::isolation::netns;
use crate::isolation::numbers::Numbers;
use crate::launch::{Launch, Output};
use kneepoint_model::CommandSpec;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const BRIDGE: &str = "switch";
/// A hardware address that comes with the number, since a host that takes another's place must not be looked
/// for at the old one's, which its peers remember. Locally administered.
const HARDWARE: &str = "02:00:c6:12:00";
/// Where distributions put `ip` and `tc`.
const PLACES: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
/// What may leave a limited link at once after a rest: as much as it carries in this time, in seconds, and one packet as large as
/// the kernel makes them before it cuts them, in bytes, at least (tc-tbf(8)).
const BURST_S: f64 = 0.01;
const LARGEST_PACKET: f64 = 65_536.0;
/// How long a packet may wait before a limited link, in ms; then it is dropped, as a switch does.
const LINK_QUEUE_MS: u32 = 200;

/// The address of host `number`, from the range of RFC 2544 for benchmarks. Labs do not see each other, so all
/// may use the same ones.
pub(super) fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, 0, number)
}

/// The path under which other processes open a namespace whose descriptor this process holds.
pub(super) fn path(netns: &OwnedFd) -> PathBuf {
    PathBuf::from(format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        netns.as_raw_fd()
    ))
}

impl Keeper {
    /// A namespace with a bridge that leads nowhere.
    pub(super) fn make_switch(&self) -> Result<Arc<OwnedFd>, LabError> {
        let netns = netns::create()
            .map_err(|error| LabError::system("making a network namespace", &error))?;
        let netns = Arc::new(netns);
        let script = format!(
            "link add name {BRIDGE} type bridge stp_state 0 forward_delay 0 mcast_snooping 0\n\
             link set dev {BRIDGE} up\n"
        );
        self.ip(&netns, script)?;
        Ok(netns)
    }

    /// A namespace with a loopback and an interface plugged into the switch.
    pub(super) fn plug_in(
        &self,
        switch: &Arc<OwnedFd>,
        number: u8,
    ) -> Result<Arc<OwnedFd>, LabError> {
        let netns = netns::create()
            .map_err(|error| LabError::system("making a network namespace", &error))?;
        let netns = Arc::new(netns);
        let host_side = path(&netns);
        let script = format!(
            "link add name port{number} type veth peer name eth0 address {HARDWARE}:{number:02x} netns {}\n\
             link set dev port{number} master {BRIDGE} up\n",
            host_side.display()
        );
        self.ip(switch, script)?;
        let mut script = String::from("link set dev lo up\n");
        let address = address(number);
        // Writing to a string cannot fail.
        let _ = writeln!(script, "address add {address}/24 dev eth0");
        script.push_str("link set dev eth0 up\n");
        self.ip(&netns, script)?;
        Ok(netns)
    }

    /// Takes a host off the switch, so that its number can be used again at once.
    pub(super) fn unplug(&self, switch: &Arc<OwnedFd>, number: u8) -> Result<(), LabError> {
        self.ip(switch, format!("link delete dev port{number}\n"))
    }

    /// Lets a host send and receive no more than so many megabits a second (tc-tbf(8)).
    pub(super) fn limit_link(
        &self,
        switch: &Arc<OwnedFd>,
        host: &Arc<OwnedFd>,
        number: u8,
        mbit: f64,
    ) -> Result<(), LabError> {
        let queue = |device: &str| {
            let bits = mbit * 1e6;
            let burst = (bits / 8.0 * BURST_S).max(LARGEST_PACKET);
            format!(
                "qdisc add dev {device} root tbf rate {bits:.0}bit burst {burst:.0} latency {LINK_QUEUE_MS}ms\n"
            )
        };
        self.iproute("tc", host, queue("eth0"))?;
        self.iproute("tc", switch, queue(&format!("port{number}")))
    }

    fn ip(&self, netns: &Arc<OwnedFd>, script: String) -> Result<(), LabError> {
        self.iproute("ip", netns, script)
    }

    /// Runs a program of iproute2 on lines, within a namespace.
    fn iproute(
        &self,
        name: &'static str,
        netns: &Arc<OwnedFd>,
        script: String,
    ) -> Result<(), LabError> {
        let found = PLACES.map(|place| Path::new(place).join(name));
        let program = found
            .iter()
            .find(|path| path.exists())
            .cloned()
            .ok_or_else(|| LabError::NoProgram {
                program: found[0].clone(),
                why: "does not exist (package iproute2)".into(),
            })?;
        let mut command = CommandSpec::new(program).args(["-batch", "-"]);
        command.stdin = Some(script.clone());
        command.timeout = Duration::from_secs(20);
        let launch = Launch {
            program: command.program.clone(),
            args: command.args.clone(),
            env: Vec::new(),
            dir: "/".into(),
            account: None,
            netns: Some(Arc::clone(netns)),
            room: None,
            numbers: Numbers::Starters,
            groups: Vec::new(),
            input: true,
            output: Output::Pipes,
        };
        let output = self.run_to_end(launch, &command)?;
        if output.success() {
            Ok(())
        } else {
            Err(LabError::System {
                what: format!(
                    "`{name} {}`",
                    script.trim_end().replace('\n', &format!("; {name} "))
                ),
                why: output.stderr.trim().to_owned(),
                advice: match name {
                    "tc" => "; a limited link needs sch_tbf in the kernel".into(),
                    _ => "; the lab needs veth and bridge devices in the kernel".into(),
                },
            })
        }
    }
}
