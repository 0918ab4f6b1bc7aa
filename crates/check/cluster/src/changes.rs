//! Disks in use get another policy, or another place, as administrators ask for it.

use cairn_api::{LocalManagement as _, v1};

use crate::{
    cluster::Cluster,
    shape::{DiskShape, Shape},
};

impl Cluster {
    /// Gives one of the shape's disks so many copies more than the shape says; a host with room for them or not. One in rows keeps its
    /// members and sets so many times 20 % of its size aside.
    ///
    /// # Errors
    /// What the host answered.
    pub async fn set_copies(&self, disk: usize, at: usize, more: u8) -> Result<v1::DiskChange, String> {
        let at = self.up_from(at)?;
        let policy =
            if more == 0 { Shape::policy_name(disk) } else { format!("{}-and-{more}", Shape::policy_name(disk)) };
        if more > 0 {
            let shape = &self.shape.disks[disk];
            let rules = match shape.in_rows() {
                true => v1::PolicyRules { reservation_percent: 20 * more, ..shape.rules() },
                false => v1::PolicyRules { ftt: (shape.ftt + more).min(3), ..shape.rules() },
            };
            return self.set_rules(disk, at, &policy, rules).await;
        }
        self.set_policy(disk, at, policy).await
    }

    /// Gives one of the shape's disks a policy of these rules, which has this name or gets it.
    ///
    /// # Errors
    /// What the host answered.
    pub async fn set_rules(
        &self,
        disk: usize,
        at: usize,
        name: &str,
        rules: v1::PolicyRules,
    ) -> Result<v1::DiskChange, String> {
        let at = self.up_from(at)?;
        let request = v1::PolicyCreate { name: name.to_owned(), rules };
        // It may be there already.
        let _ = self.manage(at, async move |node| node.policy_create(request).await).await;
        self.set_policy(disk, at, name.to_owned()).await
    }

    /// Gives one of the shape's disks a policy with another layout: failures to tolerate, strips of data (0: a mirror), stripes. None: its own again.
    ///
    /// # Errors
    /// What the host answered.
    pub async fn set_layout(
        &self,
        disk: usize,
        at: usize,
        other: Option<(u8, u8, u8)>,
    ) -> Result<v1::DiskChange, String> {
        let Some((ftt, data_strips, stripe_width)) = other else {
            return self.set_copies(disk, at, 0).await;
        };
        let shape = DiskShape { ftt, data_strips, stripe_width, ..self.shape.disks[disk].clone() };
        let name = format!("{}-as-{ftt}-{data_strips}-{stripe_width}", Shape::policy_name(disk));
        self.set_rules(disk, at, &name, shape.rules()).await
    }

    async fn set_policy(&self, disk: usize, at: usize, policy: String) -> Result<v1::DiskChange, String> {
        let (name, request) = (Shape::disk_name(disk), v1::DiskPolicySet { policy, dry_run: false, force: true });
        let asked = self.manage(at, async move |node| node.disk_policy_set(name, request).await).await;
        asked.map_err(|error| error.to_string())
    }

    /// Moves what one of the shape's disks has on a host to another one; wherever there is room, where none is named.
    ///
    /// # Errors
    /// What the host answered.
    pub async fn move_disk(&self, disk: usize, from: usize, to: Option<usize>) -> Result<v1::DiskChange, String> {
        let name_of = |host: usize| self.members[host].host.spoken_id().to_string();
        let request = v1::DiskMove { from: name_of(from), to: to.map(name_of), dry_run: false };
        let (at, name) = (self.up_from(from)?, Shape::disk_name(disk));
        let asked = self.manage(at, async move |node| node.disk_move(name, request).await).await;
        asked.map_err(|error| error.to_string())
    }

    /// This host, or the next one that is up.
    pub(crate) fn up_from(&self, host: usize) -> Result<usize, String> {
        let hosts = self.members.len();
        let up = (0..hosts).map(|n| (host + n) % hosts).find(|n| self.node(*n).is_some());
        up.ok_or_else(|| "all hosts are down".to_owned())
    }
}
