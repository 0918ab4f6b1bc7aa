//! A daemon that does nothing but hold one etcd member: a test kills it and looks what becomes of the member.
//!
//! Arguments: folder, client port, peer port. Prints the member's process id, then waits to be killed.

use std::{
    env,
    io::{self, Write as _},
    path::PathBuf,
    thread,
    time::Duration,
};

use cairn_directory_etcd::supervise::{Member, MemberConfig, MemberState};
use cairn_types::ClusterId;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = env::args().skip(1);
    let mut next = || arguments.next().ok_or("arguments: folder, client port, peer port");
    let folder = PathBuf::from(next()?);
    let (client, peer) = (next()?, next()?);
    let peer_url = format!("http://127.0.0.1:{peer}");
    let member = Member::start(MemberConfig {
        cluster: ClusterId(6),
        name: "held".into(),
        data_dir: folder.join("held"),
        log_file: folder.join("held.log"),
        client_url: format!("http://127.0.0.1:{client}"),
        peer_url: peer_url.clone(),
        initial_cluster: vec![("held".into(), peer_url)],
        others: Vec::new(),
        joined: false,
        learner: false,
        program: None,
    })?;
    let MemberState::Running { pid } = member.state() else {
        return Err(format!("{:?}", member.state()).into());
    };
    println!("{pid}");
    io::stdout().flush()?;
    // Whoever started it kills it; should that one die, a minute is the end.
    thread::sleep(Duration::from_secs(60));
    Ok(())
}
