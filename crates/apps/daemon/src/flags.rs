//! The command line of the daemon. Flags override the file.

use std::path::PathBuf;

use clap::Parser;

use crate::config::{Config, ConfigError, LogFormat, Size};

/// Where a packaged host has its configuration; used when it is there and --config is not given.
pub const CONFIG_DEFAULT: &str = "/etc/cairn/cairnd.toml";

/// The Cairn host daemon: pools this host's disks with those of its peers and serves virtual disks.
#[derive(Debug, Clone, Parser)]
#[command(name = "cairnd", version, max_term_width = 100)]
pub struct Flags {
    /// Configuration file [default: /etc/cairn/cairnd.toml where it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print the effective configuration with defaults and units, and end
    #[arg(long)]
    pub print_config: bool,
    /// Print the OpenAPI description of the management API, and end
    #[arg(long)]
    pub print_openapi: bool,
    /// Print the page of all metrics, and end
    #[arg(long)]
    pub print_metrics: bool,
    /// Print the man page, and end
    #[arg(long, hide = true)]
    pub print_manual: bool,
    /// Print the completion script of a shell, and end
    #[arg(long, hide = true, value_name = "SHELL")]
    pub print_completions: Option<clap_complete::Shell>,
    /// Check the configuration, and end
    #[arg(long)]
    pub check_config: bool,

    /// Overrides cluster.name
    #[arg(long, value_name = "NAME")]
    pub cluster_name: Option<String>,
    /// Overrides host.name
    #[arg(long, value_name = "NAME")]
    pub host_name: Option<String>,
    /// Overrides host.fault_domain
    #[arg(long, value_name = "NAME")]
    pub fault_domain: Option<String>,
    /// Overrides host.data_dir
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Overrides listen.peers
    #[arg(long, value_name = "ADDRESS")]
    pub listen_peers: Option<String>,
    /// Overrides listen.api; "" turns it off
    #[arg(long, value_name = "ADDRESS")]
    pub listen_api: Option<String>,
    /// Overrides listen.api_socket; "" turns it off
    #[arg(long, value_name = "PATH")]
    pub api_socket: Option<String>,
    /// Overrides listen.nbd; "" turns it off
    #[arg(long, value_name = "ADDRESS")]
    pub listen_nbd: Option<String>,
    /// Overrides listen.nbd_socket; "" turns it off
    #[arg(long, value_name = "PATH")]
    pub nbd_socket: Option<String>,
    /// Overrides listen.vhost_user_dir; "" turns it off
    #[arg(long, value_name = "DIR")]
    pub vhost_user_dir: Option<String>,
    /// Overrides log.format
    #[arg(long, value_enum)]
    pub log_format: Option<LogFormat>,
    /// Overrides log.level
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,

    /// Run this many hosts in one process, on files in the data directory: for trying it out
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub embedded_hosts: Option<u32>,
    /// Size of the cache file of each embedded host
    #[arg(long, value_name = "SIZE", default_value = "256MiB", requires = "embedded_hosts")]
    pub embedded_cache: Size,
    /// Size of the capacity file of each embedded host
    #[arg(long, value_name = "SIZE", default_value = "2GiB", requires = "embedded_hosts")]
    pub embedded_capacity: Size,
    /// Capacity files of each embedded host
    #[arg(long, value_name = "COUNT", default_value_t = 1, requires = "embedded_hosts",
          value_parser = clap::value_parser!(u32).range(1..=7))]
    pub embedded_capacity_devices: u32,
    /// For measuring: requests to the cache files take what they would on this medium: hdd10k, sata-ssd, nvme-nand, nvme-read, optane, or one of
    /// the configuration's
    #[arg(long, value_name = "MEDIUM", requires = "embedded_hosts")]
    pub embedded_cache_medium: Option<String>,
    /// The same for the capacity files
    #[arg(long, value_name = "MEDIUM", requires = "embedded_hosts")]
    pub embedded_capacity_medium: Option<String>,
    /// Every time of those media is multiplied by this
    #[arg(long, value_name = "FACTOR", requires = "embedded_hosts")]
    pub embedded_medium_dilation: Option<f64>,
}

impl Flags {
    /// The file's values with the flags' over them, checked.
    ///
    /// # Errors
    /// As [`Config::read`] and [`Config::check`].
    pub fn effective_config(&self) -> Result<Config, ConfigError> {
        let default = PathBuf::from(CONFIG_DEFAULT);
        let config = match &self.config {
            Some(path) => Config::read(path)?,
            // An embedded cluster is for trying out: it does not pick up the packaged host's configuration.
            None if self.embedded_hosts.is_none() && default.exists() => Config::read(&default)?,
            None => Config::default(),
        };
        self.over(config).check()
    }

    fn over(&self, mut config: Config) -> Config {
        let set = |to: &mut String, from: &Option<String>| {
            if let Some(value) = from {
                to.clone_from(value);
            }
        };
        set(&mut config.cluster.name, &self.cluster_name);
        set(&mut config.host.name, &self.host_name);
        set(&mut config.host.fault_domain, &self.fault_domain);
        set(&mut config.listen.peers, &self.listen_peers);
        set(&mut config.listen.api, &self.listen_api);
        set(&mut config.listen.api_socket, &self.api_socket);
        set(&mut config.listen.nbd, &self.listen_nbd);
        set(&mut config.listen.nbd_socket, &self.nbd_socket);
        set(&mut config.listen.vhost_user_dir, &self.vhost_user_dir);
        set(&mut config.log.level, &self.log_level);
        if let Some(dir) = &self.data_dir {
            config.host.data_dir.clone_from(dir);
        }
        if let Some(format) = self.log_format {
            config.log.format = format;
        }
        config
    }
}
