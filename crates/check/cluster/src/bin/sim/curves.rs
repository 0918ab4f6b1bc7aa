//! `sim curves`: what clusters of several sizes cost, as a table.

use std::process::ExitCode;

use cairn_cluster::curves::{self, HEADING, Order};

/// Prints a line for each size.
pub fn print(order: &Order) -> ExitCode {
    println!("{HEADING}");
    for hosts in &order.hosts {
        match curves::point(*hosts, order) {
            Ok(point) => println!("{point}"),
            Err(failure) => {
                eprintln!("sim: {hosts} hosts: {}", failure.what);
                return ExitCode::from(1);
            }
        }
    }
    ExitCode::SUCCESS
}
