//! `cairn policy`.

use cairn_api::v1::{Policy, PolicyChange, PolicyCreate, PolicyEdit, PolicyRules, RulesMethod};
use cairn_sizing::Protection;
use cairn_types::format_bytes;

use super::Context;
use crate::{
    args::{Method, Policy as Verb, PolicyCreate as Wanted, PolicyEdit as Edit},
    confirm::confirm,
    fail::Fail,
    output, units,
};

/// Carries out a verb.
pub async fn run(context: &Context, verb: Verb) -> Result<(), Fail> {
    let client = &context.client;
    match verb {
        Verb::List => {
            let policies = client.policy_list().await?;
            output::show(context.format, &policies, |policies| list(policies))
        }
        Verb::Show { policy } => {
            let policy = client.policy_show(policy).await?;
            output::show(context.format, &policy, show)
        }
        Verb::Suggest => super::suggest::run(context).await,
        Verb::Create(wanted) => {
            let policy = client.policy_create(&create(wanted)).await?;
            output::show(context.format, &policy, show)
        }
        Verb::Edit(wanted) => edit(context, wanted).await,
        Verb::Delete { policy } => {
            client.policy_delete(&policy).await?;
            output::note(context.format, &format!("policy {policy} deleted"));
            Ok(())
        }
    }
}

fn create(wanted: Wanted) -> PolicyCreate {
    PolicyCreate {
        name: wanted.name,
        rules: PolicyRules {
            ftt: wanted.ftt,
            ftm: wanted.ftm.into(),
            data_strips: wanted.data_strips,
            stripe_width: wanted.stripe_width,
            reservation_percent: wanted.reservation,
            checksum: !wanted.no_checksum,
            force_provisioning: wanted.force_provisioning,
            iops_limit: wanted.iops_limit,
            bandwidth_limit_bytes_per_s: wanted.bandwidth_limit,
            confirmed_reads: wanted.confirmed_reads,
        },
    }
}

impl From<Method> for RulesMethod {
    fn from(method: Method) -> Self {
        match method {
            Method::Mirror => Self::Mirror,
            Method::ErasureCoding => Self::ErasureCoding,
        }
    }
}

/// Tells what would come of it, asks, and does it.
async fn edit(context: &Context, wanted: Edit) -> Result<(), Fail> {
    let client = &context.client;
    let known = client.policy_show(wanted.policy.clone()).await?;
    let (dry_run, force, yes) = (wanted.dry_run, wanted.force, wanted.yes);
    let rules = edited(known.rules, wanted);
    let preview =
        client.policy_edit(known.name.clone(), &PolicyEdit { rules: rules.clone(), dry_run: true, force }).await?;
    if dry_run {
        return output::show(context.format, &preview, show_change);
    }
    if !yes && !preview.disks.is_empty() {
        output::note(context.format, &show_change(&preview));
    }
    let question = format!("Change policy {} and {} disks?", known.name, preview.disks.len());
    confirm(&question, yes || preview.disks.is_empty())?;
    let changed = client.policy_edit(known.name, &PolicyEdit { rules, dry_run: false, force }).await?;
    output::show(context.format, &changed, show_change)
}

/// The rules with what is to be changed of them. A mirror has no strips.
fn edited(now: PolicyRules, wanted: Edit) -> PolicyRules {
    let ftm = wanted.ftm.map_or(now.ftm, RulesMethod::from);
    let strips = if ftm == RulesMethod::Mirror { 0 } else { now.data_strips };
    PolicyRules {
        ftt: wanted.ftt.unwrap_or(now.ftt),
        ftm,
        data_strips: wanted.data_strips.unwrap_or(strips),
        stripe_width: wanted.stripe_width.unwrap_or(now.stripe_width),
        reservation_percent: wanted.reservation.unwrap_or(now.reservation_percent),
        checksum: now.checksum,
        force_provisioning: wanted.force_provisioning.unwrap_or(now.force_provisioning),
        iops_limit: wanted.iops_limit.unwrap_or(now.iops_limit),
        bandwidth_limit_bytes_per_s: wanted.bandwidth_limit.unwrap_or(now.bandwidth_limit_bytes_per_s),
        confirmed_reads: wanted.confirmed_reads.unwrap_or(now.confirmed_reads),
    }
}

/// What other rules come to: the sums, then each disk that changes.
fn show_change(change: &PolicyChange) -> String {
    let told = |bytes: Option<u64>| bytes.map_or("unknown".into(), format_bytes);
    let takes = match (change.bytes_to_copy, change.takes_s) {
        (Some(0), _) => String::new(),
        (_, Some(s)) => {
            format!("about {} at the rate of the last copies, one disk after the other", units::duration(s))
        }
        (_, None) => "unknown: nothing was copied yet".into(),
    };
    let sums = output::pairs([
        ("policy", change.policy.clone()),
        ("state", if change.begun { "changed" } else { "nothing was done" }.to_owned()),
        ("rules", format!("{}, before: {}", change.rules_after.describe(), change.rules_before.describe())),
        ("disks that change", change.disks.len().to_string()),
        ("as it asks already", change.unchanged.to_string()),
        ("left out", left_out(change)),
        ("to be copied", told(change.bytes_to_copy)),
        ("takes", takes),
        ("space", super::disk::space([change.bytes_before, change.bytes_after, change.bytes_peak])),
    ]);
    if change.disks.is_empty() {
        return sums;
    }
    let disks = output::table(
        &["disk", "to be copied", "now", "then", "at most", "cannot be done now"],
        change.disks.iter().map(|disk| {
            let bytes = [disk.bytes_to_copy, disk.bytes_before, disk.bytes_after, disk.bytes_peak].map(told);
            let obstacle = disk.obstacle.clone().unwrap_or_default();
            std::iter::once(disk.disk.clone()).chain(bytes).chain([obstacle]).collect()
        }),
    );
    format!("{sums}\n\n{disks}")
}

fn left_out(change: &PolicyChange) -> String {
    match change.left_out.as_slice() {
        [] => String::new(),
        some => format!("{}\nGive the command again once that is mended", some.join("\n")),
    }
}

fn list(policies: &[Policy]) -> String {
    output::table(
        &["name", "rules", "disks"],
        policies.iter().map(|policy| vec![policy.name.clone(), policy.rules.describe(), policy.disks.to_string()]),
    )
}

fn show(policy: &Policy) -> String {
    let rules = &policy.rules;
    let yes_no = |value| if value { "yes" } else { "no" }.to_owned();
    output::pairs([
        ("policy", policy.name.clone()),
        ("built in", yes_no(policy.builtin)),
        ("failures to tolerate", rules.ftt.to_string()),
        (
            "method",
            match rules.ftm {
                RulesMethod::Mirror => "mirror".into(),
                RulesMethod::ErasureCoding => "erasure coding".into(),
            },
        ),
        (
            "strips of data",
            match (rules.ftm, rules.data_strips) {
                (RulesMethod::Mirror, _) => String::new(),
                (RulesMethod::ErasureCoding, 0) => "as many as the fault domains allow".into(),
                (RulesMethod::ErasureCoding, strips) => strips.to_string(),
            },
        ),
        ("takes", takes(rules)),
        ("stripe width", rules.stripe_width.to_string()),
        ("space reservation", format!("{} %", rules.reservation_percent)),
        ("checksum", yes_no(rules.checksum)),
        ("force provisioning", yes_no(rules.force_provisioning)),
        (
            "IOPS limit",
            match rules.iops_limit {
                0 => "none".into(),
                limit => limit.to_string(),
            },
        ),
        (
            "bandwidth limit",
            match rules.bandwidth_limit_bytes_per_s {
                0 => "none".into(),
                limit => format!("{}/s", format_bytes(limit)),
            },
        ),
        ("confirmed reads", yes_no(rules.confirmed_reads)),
        ("disks", policy.disks.to_string()),
    ])
}

/// Bytes that a disk of such a policy takes for each byte that is written.
fn takes(rules: &PolicyRules) -> String {
    if rules.ftm == RulesMethod::ErasureCoding && rules.data_strips == 0 {
        return "as `cairn disk show` tells of each disk".into();
    }
    let multiplier = Protection::of(&cairn_types::Policy::from(rules)).and_then(Protection::multiplier);
    multiplier.map_or(String::new(), |factor| format!("{} bytes for a byte", factor.short(3)))
}
