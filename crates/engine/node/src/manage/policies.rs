//! Named policies.

use std::collections::BTreeSet;

use cairn_api::{ApiError, ApiResult, Request as _, v1};
use cairn_directory::{CatalogueEntry, names::Name};
use cairn_env::Env;
use cairn_types::{FaultToleranceMethod, Feature, HostId, ObjectId, Policy};
use cairn_wire::OwnerCommand;

use crate::{
    manage::{
        directory_error,
        disk_change::{Measured, demand_more},
    },
    node::Node,
};

impl<E: Env> Node<E> {
    /// Every policy with the number of disks that were made with it.
    pub(crate) async fn policy_list(&self) -> ApiResult<Vec<v1::Policy>> {
        Ok(self.policies())
    }

    pub(crate) async fn policy_show(&self, policy: String) -> ApiResult<v1::Policy> {
        let found = self.policies().into_iter().find(|p| p.name == policy);
        found.ok_or_else(|| {
            ApiError::not_found(format!("there is no policy {policy:?}")).remedy("See `cairn policy list`")
        })
    }

    fn policies(&self) -> Vec<v1::Policy> {
        let disks = self.catalogue();
        let known = self.inner.copy.borrow().list::<Policy>();
        let one = |(name, policy): (Name, Policy)| v1::Policy {
            builtin: name.as_str() == v1::DEFAULT_POLICY,
            rules: v1::PolicyRules::from(&policy),
            disks: disks.iter().filter(|(_, d)| d.policy_name == name).count() as u32,
            name: name.as_str().to_owned(),
        };
        known.into_iter().map(one).collect()
    }

    pub(crate) async fn policy_create(&self, request: v1::PolicyCreate) -> ApiResult<v1::Policy> {
        request.validate()?;
        let name = Name::new(request.name.clone()).map_err(|e| ApiError::invalid(e.to_string()))?;
        let policy = Policy::from(&request.rules);
        self.check_policy_is_on(&policy)?;
        let created = self.inner.registry.create(&name, &policy).await;
        created.map_err(|error| match error.is_conflict() {
            true => ApiError::conflict(format!("a policy named {:?} exists already", request.name))
                .remedy("Choose another name, or delete it first"),
            false => directory_error(error),
        })?;
        Ok(v1::Policy { name: request.name, builtin: false, rules: request.rules, disks: 0 })
    }

    /// Other rules for a policy. The directory has them first: a disk that is made meanwhile has them, and who is left out gets them by the same
    /// command.
    pub(crate) async fn policy_edit(&self, policy: String, request: v1::PolicyEdit) -> ApiResult<v1::PolicyChange> {
        request.validate()?;
        let rules_before = self.policy_show(policy.clone()).await?.rules;
        let wanted = Policy::from(&request.rules);
        self.check_policy_is_on(&wanted)?;
        let name = Name::new(&policy).map_err(|e| ApiError::invalid(e.to_string()))?;
        let Edited { mut change, concerned } = self.edited(&name, (rules_before, &request.rules)).await?;
        if request.dry_run {
            return Ok(change);
        }
        if !concerned.is_empty() {
            self.can_move()?;
        }
        let obstacles = || change.disks.iter().filter_map(|disk| Some((disk, disk.obstacle.as_ref()?)));
        if let Some((disk, why)) = obstacles().next().filter(|_| !request.force) {
            let count = obstacles().count();
            let text =
                format!("policy {policy:?} cannot be met for {count} of its disks now; disk {}: {why}", disk.disk);
            return Err(ApiError::refused(text)
                .remedy("Add what is missing, choose other rules, or use --force: it is met as soon as it can be"));
        }
        let more = concerned.iter().map(|one| one.demand_more_bytes).sum();
        self.leave_reserve(&format!("policy {policy:?} for its disks"), more)?;
        let update = self.inner.registry.update::<Policy>(&name, |known| Ok(known.map(|_| wanted.clone())));
        update.await.map_err(directory_error)?.ok_or_else(|| {
            ApiError::conflict(format!("policy {policy:?} was deleted meanwhile")).remedy("See `cairn policy list`")
        })?;
        for Concerned { disk, object, hints, .. } in concerned {
            let command = OwnerCommand::Policy { name: policy.clone(), policy: wanted.clone() };
            if let Err(error) = self.to_owner(object, &hints, command).await {
                change.left_out.push(format!("{disk}: {}", error.message));
            }
        }
        change.begun = true;
        Ok(change)
    }

    /// What other rules come to for each disk of a policy, one after the other.
    async fn edited(&self, name: &Name, (before, after): (v1::PolicyRules, &v1::PolicyRules)) -> ApiResult<Edited> {
        let wanted = Policy::from(after);
        let all: Vec<HostId> = self.peers_up().into_iter().chain([self.me()]).collect();
        let measured = Measured { held: self.usage_of(&all, None).await.0, rate_per_s: self.copy_rate().await };
        let of_policy = |entry: &CatalogueEntry| entry.policy_name == *name;
        let mut edited = Edited::of(name, before, after.clone());
        let mut found = Vec::new();
        let owned = self.owned_everywhere().await;
        let disks: BTreeSet<ObjectId> =
            self.catalogue().into_iter().filter(|(_, entry)| of_policy(entry)).map(|(object, _)| object).collect();
        let concerns = |object: &ObjectId| disks.contains(object);
        self.each_record(&owned, concerns, |object, entry, config| match config {
            Some(config) => found.push((object, entry.hint_hosts.clone(), config)),
            None => {
                edited.change.left_out.push(format!("{}: no host that answers has its record", entry.name.as_str()))
            }
        })
        .await;
        let mut picture = self.picture();
        for (object, hints, config) in found {
            if config.policy == wanted && config.policy_name == name.as_str() {
                edited.change.unchanged += 1;
                continue;
            }
            let told = self.policy_change(&mut picture, &config, (name.as_str(), &wanted), &measured);
            let (then, change) = told
                .map_err(|error| ApiError { message: format!("disk {}: {}", config.name, error.message), ..error })?;
            let demand_more_bytes = demand_more(&config, &then);
            edited.add(change, Concerned { disk: config.name.clone(), object, hints, demand_more_bytes });
        }
        Ok(edited)
    }

    /// Refuses a policy that hosts of earlier releases do not know.
    pub(crate) fn check_policy_is_on(&self, policy: &Policy) -> ApiResult<()> {
        match policy.ftm {
            FaultToleranceMethod::Mirror => Ok(()),
            FaultToleranceMethod::ErasureCoding { .. } => self.check_is_on(Feature::ErasureCoding, "erasure coding"),
        }
    }

    pub(crate) async fn policy_delete(&self, policy: String) -> ApiResult<()> {
        if policy == v1::DEFAULT_POLICY {
            return Err(ApiError::refused("the default policy cannot be deleted"));
        }
        let name = Name::new(&policy).map_err(|e| ApiError::invalid(e.to_string()))?;
        let used = self.catalogue().iter().filter(|(_, d)| d.policy_name == name).count();
        if used > 0 {
            return Err(ApiError::refused(format!("{used} disks were made with policy {policy:?}"))
                .remedy("Delete them first, or leave the policy"));
        }
        match self.inner.registry.remove::<Policy>(&name).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(ApiError::not_found(format!("there is no policy {policy:?}"))),
            Err(error) => Err(directory_error(error)),
        }
    }

    /// The policy of this name as the directory has it.
    pub(crate) async fn policy(&self, name: &str) -> ApiResult<Policy> {
        let id = Name::new(name).map_err(|e| ApiError::invalid(e.to_string()))?;
        let found = self.inner.registry.get::<Policy>(&id).await.map_err(directory_error)?;
        found.map(|f| f.entry).ok_or_else(|| {
            ApiError::not_found(format!("there is no policy {name:?}")).remedy("See `cairn policy list`")
        })
    }
}

/// A disk that other rules change.
struct Concerned {
    disk: String,
    object: ObjectId,
    hints: Vec<HostId>,
    demand_more_bytes: u64,
}

/// What other rules come to, and whom they concern.
struct Edited {
    change: v1::PolicyChange,
    concerned: Vec<Concerned>,
}

impl Edited {
    fn of(name: &Name, rules_before: v1::PolicyRules, rules_after: v1::PolicyRules) -> Self {
        let change = v1::PolicyChange {
            policy: name.as_str().to_owned(),
            begun: false,
            rules_before,
            rules_after,
            disks: Vec::new(),
            unchanged: 0,
            left_out: Vec::new(),
            bytes_to_copy: Some(0),
            bytes_before: Some(0),
            bytes_after: Some(0),
            bytes_peak: Some(0),
            takes_s: Some(0),
        };
        Self { change, concerned: Vec::new() }
    }

    fn add(&mut self, disk: v1::DiskChange, concerned: Concerned) {
        let sum = |all: &mut Option<u64>, one: Option<u64>| *all = all.zip(one).map(|(all, one)| all + one);
        sum(&mut self.change.bytes_to_copy, disk.bytes_to_copy);
        sum(&mut self.change.bytes_before, disk.bytes_before);
        sum(&mut self.change.bytes_after, disk.bytes_after);
        sum(&mut self.change.bytes_peak, disk.bytes_peak);
        sum(&mut self.change.takes_s, disk.takes_s);
        self.change.disks.push(disk);
        self.concerned.push(concerned);
    }
}
