//! Reads back what a load wrote, and compares it with what was acknowledged.

use cairn_env_linux::LinuxEnv;

use crate::{
    job::{RunError, Verified},
    ledger::{Place, Written},
    open::Door,
};

/// Requests that are read back at once, of each stream.
const AT_ONCE: usize = 8;

/// Reads every place of all streams.
///
/// # Errors
/// A target does not open, or a read fails.
pub(crate) async fn read_back(env: &LinuxEnv, written: &[Written]) -> Result<Verified, RunError> {
    use futures::stream::{StreamExt as _, TryStreamExt as _, iter};
    let mut verified = Verified::default();
    for stream in written {
        let target = Door::default().open(env, &stream.target, false).await?;
        let one = |(offset, place): (u64, &Place)| {
            let (target, place, stream) = (target.clone(), place.clone(), stream);
            async move {
                let data = target.read(offset, place.len_bytes).await.map_err(|why| {
                    let why = format!("read back of {} bytes at {offset}: {why}", place.len_bytes);
                    RunError::Request { target: stream.target.to_string(), why }
                })?;
                let mut may_be = place.acknowledged.iter().chain(&place.open);
                Ok::<_, RunError>((may_be.any(|g| stream.content.is(offset, *g, &data)), offset, place.len_bytes))
            }
        };
        let mut checked = iter(stream.ledger.places().map(one)).buffer_unordered(AT_ONCE);
        while let Some((good, offset, len_bytes)) = checked.try_next().await? {
            verified.places += 1;
            verified.bytes += u64::from(len_bytes);
            if !good {
                verified.wrong += 1;
                verified.first_wrong.get_or_insert_with(|| format!("{} at byte {offset}", stream.target));
            }
        }
    }
    Ok(verified)
}
