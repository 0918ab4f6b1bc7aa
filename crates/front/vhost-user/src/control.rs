//! What a front end says beside its rings: features, memory, where rings lie, start and stop.
//!
//! Promises    each message is carried out or refused as a whole; what changes a ring is done by the session, in the order of messages
//!             a front end that stops in the middle of a message holds up itself alone: its thread waits, and the shard does not
//! Assumes     it runs on a thread of its own, as reading a message blocks; messages are few
//! Not here    reading and writing messages (the `vhost` crate), requests (`session`)

use std::{
    fs::{self, File},
    os::fd::{AsRawFd as _, OwnedFd},
    os::unix::net::UnixStream,
    sync::{Arc, Mutex, mpsc},
};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tokio::sync::mpsc::UnboundedSender;
use vhost::{
    VhostUserMemoryRegionBase,
    vhost_user::{
        BackendReqHandler, Error, GpuBackend, Result, VhostUserBackendReqHandlerMut,
        message::{
            VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
            VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig, VhostUserSharedMsg,
            VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
        },
    },
};

use crate::{
    device::{EVENT_IDX, PROTOCOL_FEATURES, RING_ENTRIES_MAX, RINGS_MAX, Told, config},
    inflight::Regions,
    memory::Memory,
    session::Order,
    vring::Layout,
};

#[derive(Default)]
struct Ring {
    layout: Layout,
    call: Option<File>,
    enabled: bool,
    started: bool,
}

/// What one front end has said so far.
pub(crate) struct Control {
    disk: Disk,
    /// Features that the front end may use.
    offered: u64,
    features: u64,
    regions: Option<Regions>,
    rings: Vec<Ring>,
    orders: UnboundedSender<Order>,
}

/// What is told of the disk, which comes when it is open: a front end that comes back does not ask for it, and QEMU stands still
/// while it waits for an answer.
enum Disk {
    Coming(mpsc::Receiver<Told>),
    Known(Told),
}

/// Serves the control connection until the front end leaves, or says what it must not. Blocks.
///
/// `offered` are the disk's features. A front end that comes back asks for them first of all, so they are known before it is open.
pub(crate) fn serve(
    connection: UnixStream,
    offered: u64,
    told: mpsc::Receiver<Told>,
    orders: UnboundedSender<Order>,
    disk: &str,
) {
    let rings = (0..RINGS_MAX).map(|_| Ring::default()).collect();
    let control = Control { disk: Disk::Coming(told), offered, features: 0, regions: None, rings, orders };
    let mut handler = BackendReqHandler::from_stream(connection, Arc::new(Mutex::new(control)));
    loop {
        match handler.handle_request() {
            Ok(()) => {}
            Err(Error::Disconnected) => return,
            // It may have been told why: a message that asks for an acknowledgement gets one.
            Err(error) => return tracing::warn!(disk, "a vhost-user front end was left: {error}"),
        }
    }
}

const NOT_OFFERED: Error = Error::InvalidOperation("not offered");

impl Control {
    fn order(&self, order: Order) -> Result<()> {
        self.orders.send(order).map_err(|_| Error::BackendInternalError)
    }

    fn told(&mut self) -> Result<Told> {
        let told = match &self.disk {
            Disk::Known(told) => *told,
            Disk::Coming(told) => told.recv().map_err(|_| Error::BackendInternalError)?,
        };
        self.disk = Disk::Known(told);
        Ok(told)
    }

    fn ring(&mut self, index: u32) -> Result<&mut Ring> {
        self.rings.get_mut(index as usize).ok_or(Error::InvalidParam)
    }
}

/// A descriptor to wake or be woken by. Anything but an event counter could block whoever uses it.
fn event(file: File) -> Result<File> {
    let link = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(|_| Error::InvalidParam)?;
    if link.to_str() != Some("anon_inode:[eventfd]") {
        tracing::warn!("a vhost-user front end gave {} to be woken by, which is no eventfd", link.display());
        return Err(Error::InvalidParam);
    }
    let flags = fcntl_getfl(&file).map_err(|_| Error::InvalidParam)?;
    fcntl_setfl(&file, flags | OFlags::NONBLOCK).map_err(|_| Error::InvalidParam)?;
    Ok(file)
}

impl VhostUserBackendReqHandlerMut for Control {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn reset_device(&mut self) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.offered)
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !self.offered != 0 {
            return Err(Error::FeatureMismatch);
        }
        self.features = features;
        // Without protocol features there is no message to enable a ring.
        if features & PROTOCOL_FEATURES == 0 {
            self.rings.iter_mut().for_each(|ring| ring.enabled = true);
        }
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        let memory = Memory::map(regions, files).map_err(|why| {
            tracing::warn!("a vhost-user front end's memory cannot be mapped: {why}");
            Error::InvalidParam
        })?;
        self.order(Order::Memory(Arc::new(memory)))?;
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, entries: u32) -> Result<()> {
        let entries = u16::try_from(entries).map_err(|_| Error::InvalidParam)?;
        if !entries.is_power_of_two() || entries > RING_ENTRIES_MAX {
            return Err(Error::InvalidParam);
        }
        self.ring(index)?.layout.entries = entries;
        Ok(())
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _: u64,
    ) -> Result<()> {
        let layout = &mut self.ring(index)?.layout;
        (layout.descriptors, layout.available, layout.used) = (descriptors, available, used);
        Ok(())
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        self.ring(index)?.layout.base = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        if std::mem::take(&mut self.ring(index)?.started) {
            let (told, base) = mpsc::sync_channel(1);
            self.order(Order::Stop { index: index as usize, told })?;
            // One that could not be started has nothing to tell.
            if let Ok(base) = base.recv() {
                self.ring(index)?.layout.base = base;
            }
        }
        let ring = self.ring(index)?;
        ring.enabled = false;
        Ok(VhostUserVringState::new(index, ring.layout.base.into()))
    }

    fn set_vring_kick(&mut self, index: u8, kick: Option<File>) -> Result<()> {
        let event_idx = self.features & EVENT_IDX != 0;
        // Without one the ring would have to be looked at for ever.
        let kick = OwnedFd::from(event(kick.ok_or(Error::InvalidParam)?)?);
        let number = usize::from(index);
        let ring = self.ring(index.into())?;
        if std::mem::replace(&mut ring.started, true) {
            return self.order(Order::Kick { index: number, kick });
        }
        let layout = Layout { event_idx, ..ring.layout };
        let (call, enable) = (ring.call.as_ref().map(File::try_clone), ring.enabled);
        let call = call.transpose().map_err(Error::ReqHandlerError)?;
        let inflight = self.regions.as_ref().and_then(|regions| regions.ring(index.into(), layout.entries));
        self.order(Order::Start { index: number, layout, kick, inflight })?;
        self.order(Order::Call { index: number, call })?;
        self.order(Order::Enable { index: number, enable })
    }

    fn set_vring_call(&mut self, index: u8, call: Option<File>) -> Result<()> {
        let call = call.map(event).transpose()?;
        let ring = self.ring(index.into())?;
        ring.call = call.as_ref().map(File::try_clone).transpose().map_err(Error::ReqHandlerError)?;
        self.order(Order::Call { index: index.into(), call })
    }

    fn set_vring_err(&mut self, index: u8, _: Option<File>) -> Result<()> {
        self.ring(index.into()).map(|_| ())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::INFLIGHT_SHMFD)
    }

    fn set_protocol_features(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(RINGS_MAX.into())
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.ring(index)?.enabled = enable;
        self.order(Order::Enable { index: index as usize, enable })
    }

    fn get_config(&mut self, offset: u32, size: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        Ok(config(self.told()?, offset, size))
    }

    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_inflight_fd(&mut self, wanted: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        if wanted.num_queues > RINGS_MAX || wanted.queue_size > RING_ENTRIES_MAX {
            return Err(Error::InvalidParam);
        }
        let made = Regions::make(wanted.num_queues, wanted.queue_size);
        let (regions, file) = made.map_err(Error::ReqHandlerError)?;
        let answer = VhostUserInflight::new(regions.len(), 0, wanted.num_queues, wanted.queue_size);
        self.regions = Some(regions);
        Ok((answer, file))
    }

    fn set_inflight_fd(&mut self, kept: &VhostUserInflight, file: File) -> Result<()> {
        let adopted = Regions::adopt(file, kept.mmap_offset, kept.mmap_size, kept.num_queues, kept.queue_size);
        self.regions = Some(adopted.map_err(Error::ReqHandlerError)?);
        Ok(())
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Err(NOT_OFFERED)
    }

    fn add_mem_region(
        &mut self,
        _: &VhostUserSingleMemoryRegion,
        _: File,
        _: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        Err(NOT_OFFERED)
    }

    fn remove_mem_region(&mut self, _: &VhostUserSingleMemoryRegion) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        Err(NOT_OFFERED)
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        Err(NOT_OFFERED)
    }

    fn check_device_state(&mut self) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        Err(NOT_OFFERED)
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        Err(NOT_OFFERED)
    }
}
