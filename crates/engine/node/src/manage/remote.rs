//! Management work that another host has to do, and what it answers.

use cairn_api::{ApiError, ApiResult};
use cairn_env::Env;
use cairn_types::{DiskGroupId, HostId, ObjectId};
use cairn_wire::{Answer, Api, HostAnswer, HostCommand, ObjectStatus, OwnerCommand, Refusal, Request};

use crate::node::Node;

/// A refusal between hosts in words for a person.
pub(crate) fn words(refusal: &Refusal) -> String {
    match refusal {
        Refusal::NoSpace => "no room on its devices".into(),
        Refusal::NotFound => "the disk group is not open there".into(),
        Refusal::Media(text) | Refusal::Invalid(text) | Refusal::Inaccessible(text) => text.clone(),
        Refusal::Lost => "it does not answer".into(),
        Refusal::Fenced { .. } | Refusal::Stale { .. } | Refusal::Session => {
            "another owner was faster; try again".into()
        }
        Refusal::BadBlocks(_) => "blocks cannot be read".into(),
        Refusal::NotOwner(_) => "the owner changed; try again".into(),
    }
}

impl<E: Env> Node<E> {
    /// Has a host do something; this one by a plain call.
    pub(crate) async fn on_host(&self, host: HostId, command: HostCommand) -> ApiResult<HostAnswer> {
        if host == self.me() {
            return self.carry_out(command).await;
        }
        let reply = self.inner.rpc.call(host, Request::ManageHost { command }, Vec::new()).await;
        let name = self.host_name(host);
        match reply {
            Ok((Answer::Managed(answer), _)) => match *answer {
                HostAnswer::Refused(Api(error)) => Err(error),
                answer => Ok(answer),
            },
            Ok(_) => Err(ApiError::internal(format!("host {name} answered something else"))),
            Err(refusal) => Err(ApiError::unavailable(format!("host {name} cannot be asked: {}", words(&refusal)))),
        }
    }

    /// The hosts that a question about disk groups goes to: those of a server, that of a disk group, all of the cluster where neither is
    /// named.
    pub(crate) fn hosts_to_ask(
        &self,
        host: Option<&String>,
        disk_group: Option<DiskGroupId>,
    ) -> ApiResult<Vec<HostId>> {
        match (host, disk_group) {
            (Some(host), _) => Ok(self.shards_of(self.find_host(host)?)),
            (None, Some(id)) => Ok(vec![self.holder_of(id)?]),
            (None, None) => Ok(self.inner.copy.borrow().hosts().into_iter().map(|(host, _)| host).collect()),
        }
    }

    /// Another host's command.
    pub(crate) fn on_host_command(&self, from: HostId, id: u64, command: HostCommand) {
        let node = self.clone();
        self.inner.env.spawn(async move {
            let answer = node.carry_out(command).await.unwrap_or_else(|error| HostAnswer::Refused(Api(error)));
            node.inner.rpc.answer(from, id, Ok((Answer::Managed(Box::new(answer)), Vec::new())));
        });
    }

    async fn carry_out(&self, command: HostCommand) -> ApiResult<HostAnswer> {
        let objects = &self.inner.objects;
        Ok(match command {
            HostCommand::CreateGroup(Api(request)) => HostAnswer::Created(self.create_group_here(&request).await?),
            HostCommand::RemoveGroup(disk_group) => {
                self.remove_group_here(disk_group).await?;
                HostAnswer::Done
            }
            HostCommand::Groups => HostAnswer::Groups(Api(self.groups_here())),
            HostCommand::Resyncs => {
                HostAnswer::Resyncs(objects.all_owned().iter().flat_map(|o| o.resync_status()).collect())
            }
            HostCommand::Owned => HostAnswer::Owned(objects.all_owned().iter().map(|o| o.status()).collect()),
            HostCommand::OwnedCount => HostAnswer::OwnedCount(objects.all_owned().len() as u32),
            HostCommand::Sessions { only } => HostAnswer::Sessions(Api(self.sessions_here(only))),
            HostCommand::Counters => HostAnswer::Counters(Api(self.counters_here())),
            HostCommand::Latencies { only } => HostAnswer::Latencies(Api(self.latencies_here(only))),
            HostCommand::ClearCaches { only, wait_ms } => {
                HostAnswer::Cleared(Api(self.clear_here(only, wait_ms).await))
            }
            HostCommand::OnDevice { disk_group, device } => {
                let (components, room) = self.on_device_here(disk_group, device)?;
                HostAnswer::OnDevice { components, room }
            }
            HostCommand::CopyRate => HostAnswer::CopyRate(objects.copy_rate()),
            HostCommand::Hears => HostAnswer::Hears(self.peers_up()),
            HostCommand::Usage { only } => HostAnswer::Usage(self.usage_here(only)),
            HostCommand::ChangeDevices { disk_group, order: Api(order) } => {
                HostAnswer::DevicesChanged(Api(self.change_devices_here(disk_group, order).await?))
            }
            HostCommand::Devices => HostAnswer::Devices(Api(self.devices_here().await?)),
            HostCommand::Locate(Api(request)) => HostAnswer::Located(Api(self.locate_here(request).await?)),
            HostCommand::Scrub { only, verb } => {
                HostAnswer::Scrubs(Api(self.scrub_here(only, verb.map(|Api(verb)| verb))))
            }
            HostCommand::Space { disk_group, component, from_block } => {
                HostAnswer::Space(self.space_here(disk_group, component, from_block).await?)
            }
            HostCommand::SetGroup { disk_group, settings: Api(settings) } => {
                self.set_group_here(disk_group, settings).await?;
                HostAnswer::Done
            }
            HostCommand::ResyncLimit(bytes_per_s) => {
                let mut options = objects.options();
                options.resync_bytes_per_s_max = bytes_per_s;
                objects.set_options(options);
                HostAnswer::Done
            }
        })
    }

    /// Has the owner of an object carry out a command; becomes owner where there is none.
    pub(crate) async fn to_owner(
        &self,
        object: ObjectId,
        hints: &[HostId],
        command: OwnerCommand,
    ) -> ApiResult<ObjectStatus> {
        let mut why = String::new();
        for _ in 0..10 {
            let Some((known, owner)) = self.inner.objects.look_up(object, hints).await else {
                return Err(ApiError::unavailable("no host that answers has the disk's record")
                    .remedy("Start the hosts that hold it"));
            };
            let owner = owner.filter(|o| self.inner.rpc.is_up(*o));
            if self.inner.objects.owned(object).is_none()
                && owner.is_none_or(|o| o == self.me())
                && let Err(error) = self.inner.objects.take_over(&known).await
            {
                why = error.to_string();
                self.inner.env.sleep(std::time::Duration::from_millis(300)).await;
                continue;
            }
            match self.inner.objects.command(owner.unwrap_or(self.me()), object, command.clone()).await {
                Ok(status) => return Ok(status),
                Err(Refusal::Invalid(text)) => return Err(ApiError::refused(text)),
                Err(refusal) => why = words(&refusal),
            }
            self.inner.env.sleep(std::time::Duration::from_millis(300)).await;
        }
        Err(ApiError::unavailable(format!("the disk cannot be managed now: {why}"))
            .remedy("Try again; see `cairn health`"))
    }
}
