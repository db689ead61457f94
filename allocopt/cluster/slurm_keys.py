"""Keys of Slurm's files and of ``scontrol show`` output: applied, reported as not modelled, or without effect.

The names are those that Slurm 22.05 to 26.11 accepts or prints (slurm.conf(5), gres.conf(5), scontrol(1)). A key that
is in no list is reported, so that nothing in a file is ignored silently.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from allocopt.files.faults import printable, shown

NO_VALUE = frozenset(
    ("", "NO", "OFF", "NONE", "0", "N/A", "(NULL)", "UNLIMITED", "INFINITE", "UNKNOWN", "*", "-1", "NULL", "NOT_SET")
)
"""Values, in capital letters, that mean that nothing is requested or limited."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one kind of line, in lower case.

    Parameters
    ----------
    applied
        Keys that are read and have an effect.
    reported
        Keys that would change which jobs fit where but are not modelled, each with the text of its remark. A job with
        such a key is left out.
    without_effect
        Keys that do not affect which jobs fit where.
    harmless
        Values of reported keys, in capital letters, that have no effect, in addition to `NO_VALUE`.
    spelled
        All keys as the manual spells them.
    """

    applied: frozenset[str]
    reported: Mapping[str, str]
    without_effect: frozenset[str]
    harmless: Mapping[str, frozenset[str]] = field(default_factory=dict)
    spelled: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, applied: str, reported: Mapping[str, str], without_effect: str, **harmless: str) -> "Keys":
        """Return the keys from names as the manual spells them, separated by spaces."""
        return cls(
            frozenset(applied.lower().split()),
            {key.lower(): words for key, words in reported.items()},
            frozenset(without_effect.lower().split()),
            {key: frozenset(values.split()) for key, values in harmless.items()},
            {key.lower(): key for key in (*reported, *applied.split(), *without_effect.split())},
        )

    def not_modelled(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the remark for each reported key of a line whose value has an effect."""
        found = {}
        for key, text in values.items():
            plain = text.strip().upper()
            if key in self.reported and plain not in NO_VALUE and plain not in self.harmless.get(key, ()):
                found[key] = self.reported[key]
        return found

    def unknown(self, values: Mapping[str, str]) -> list[str]:
        """Return the keys of a line that are in no list."""
        known = (self.applied, self.reported, self.without_effect)
        return [key for key in values if not any(key in keys for keys in known)]


NODE_KEYS = Keys.of(
    "NodeName CPUs CPUTot Procs Boards Sockets SocketsPerBoard CoresPerSocket ThreadsPerCore RealMemory MemSpecLimit"
    " CoreSpecCount CPUSpecList Feature Features AvailableFeatures ActiveFeatures Gres Weight State CPUAlloc AllocMem"
    " AllocTRES GresUsed GresDrain Topology",
    {
        "RestrictedCoresPerGPU": "cores that only jobs with GPUs may use count as free for all jobs",
        "GresConf": "GPU types given inline are not read; give gres.conf",
        "Owner": "the node belongs to one user's exclusive jobs but is offered to all",
        "MCS_label": "the node is reserved for jobs of one label but is offered to all",
    },
    "NodeAddr NodeHostName BcastAddr Port Version Arch OS CPULoad CPUEfctv FreeMem TmpDisk Partitions BootTime"
    " SlurmdStartTime LastBusyTime ResumeAfterTime SuspendTime CfgTRES CapWatts CurrentWatts AveWatts LowestJoules"
    " ConsumedJoules ExtSensorsJoules ExtSensorsWatts ExtSensorsTemp Reason Comment Extra InstanceId InstanceType"
    " ReservationName NextState CpuBind Parameters TRESWeights TLSCertTokenSet TLSCertLastRenewal LastUpdate Hostnames"
    " Cores Avail",
)

PARTITION_KEYS = Keys.of(
    "PartitionName Nodes State Default MaxTime MaxNodes MinNodes DefMemPerCPU DefMemPerNode DefMemPerGPU JobDefaults"
    " OverSubscribe Shared Exclusive PriorityTier Topology",
    {
        "OverSubscribe": "each core runs one job at a time",
        "MaxCPUsPerNode": "the limit on the CPUs that the partition's jobs have on a node is not applied",
        "MaxCPUsPerSocket": "the limit on the CPUs that the partition's jobs have on a socket is not applied",
        "MaxMemPerCPU": "a job with more memory per CPU is not given more CPUs",
        "MaxMemPerNode": "the limit on a job's memory on a node is not applied",
        "LLN": "the least loaded nodes are not preferred",
        "Exclusive": "jobs of several users may share a node, and several jobs may share a block or switch",
        "ExclusiveUser": "jobs of several users may share a node",
        "ExclusiveTopo": "several jobs may share a block or switch",
        "PreemptMode": "no job is preempted",
        "TRESBillingWeights": "billing limits are not applied",
        "SelectTypeParameters": "the partition's own way to select cores is not applied",
        "ReqResv": "jobs need a reservation here but are placed without one",
        "QOS": "limits of the partition's QOS are not applied",
        "DefCpuPerGPU": "a job that states no CPUs per GPU gets one core per task",
    },
    "AllocNodes AllowGroups AllowAccounts AllowQos DenyAccounts DenyQos Alternate CpuBind DefaultTime DisableRootJobs"
    " GraceTime Hidden OverTimeLimit PowerDownOnIdle Priority PriorityJobFactor RootOnly ResumeTimeout SuspendTime"
    " SuspendTimeout TotalCPUs TotalNodes NodeSets NodeIndices TRES DefaultQOS MaxJobs",
    oversubscribe="EXCLUSIVE FORCE:1 YES:1",
    exclusive="NODE",
    qos="ALL",
    preemptmode="CLUSTER",
)

GRES_KEYS = Keys.of(
    "Name NodeName Type Count File Files MultipleFiles AutoDetect",
    {},
    "Cores CPUs Flags Link Links",
)

DOWN_KEYS = Keys.of("DownNodes State", {}, "Reason")
NODESET_KEYS = Keys.of("NodeSet Nodes Feature Features", {}, "")
RESERVATION_KEYS = Keys.of(
    "ReservationName Nodes CoreCnt StartTime EndTime Flags State",
    {},
    "Duration NodeCnt Features PartitionName TRES Users Groups Accounts QOS AllowedPartitions Licenses BurstBuffer"
    " Watts MaxStartDelay Comment PurgeComp NodeName CoreIDs",
)

SETTING_KEYS = Keys.of(
    "SelectType SelectTypeParameters DefMemPerCPU DefMemPerNode DefMemPerGPU ClusterName Include",
    {
        "MaxMemPerCPU": "a job with more memory per CPU is not given more CPUs",
        "MaxMemPerNode": "the limit on a job's memory on a node is not applied",
        "DefCpuPerGPU": "a job that states no CPUs per GPU gets one core per task",
        "PreemptType": "no job is preempted",
        "MCSPlugin": "jobs of several labels may share a node",
        "JobSubmitPlugins": "changes that the site's plug-in makes to a job at submission are not known",
    },
    "AccountingStorageBackupHost AccountingStorageEnforce AccountingStorageExternalHost AccountingStorageHost"
    " AccountingStorageParameters AccountingStoragePass AccountingStoragePort AccountingStorageTRES"
    " AccountingStorageType AccountingStorageUser AccountingStoreFlags AccountingStoreJobComment AcctGatherEnergyType"
    " AcctGatherFilesystemType AcctGatherInfinibandType AcctGatherInterconnectType AcctGatherNodeFreq"
    " AcctGatherProfileType AllowSpecResourcesUsage AuthAltParameters AuthAltTypes AuthInfo AuthType BackupAddr"
    " BackupController BatchStartTimeout BcastExclude BcastParameters BurstBufferParameters BurstBufferType"
    " CacheGroups"
    " CertgenType CertgenParameters CertmgrType CertmgrParameters CheckpointType CliFilterParameters CliFilterPlugins"
    " CommunicationParameters CompleteWait ControlAddr ControlMachine CoreSpecPlugin CpuFreqDef CpuFreqGovernors"
    " CredType CryptoType DataParserParameters DebugFlags DefRuntimePlugin DependencyParameters DisableRootJobs"
    " EioTimeout EnforcePartLimits Epilog EpilogMsgTime EpilogSlurmctld EpilogTimeout ExtSensorsFreq ExtSensorsType"
    " FairShareDampeningFactor FastSchedule FederationParameters FirstJobId GetEnvTimeout GpuFreqDef GresTypes"
    " GroupUpdateForce GroupUpdateTime HashPlugin HealthCheckInterval HealthCheckNodeState HealthCheckProgram"
    " HealthCheckTimeout HttpParserType InactiveLimit InteractiveStepOptions JobAcctGatherFrequency"
    " JobAcctGatherParams JobAcctGatherType JobCheckpointDir JobCompHost JobCompLoc JobCompParams JobCompPass"
    " JobCompPassScript JobCompPort JobCompType JobCompUser JobContainerType JobCredentialPrivateKey"
    " JobCredentialPublicCertificate JobFileAppend JobRequeue KeepAliveTime KillOnBadExit KillWait LaunchParameters"
    " LaunchType LicenseParameters Licenses LogTimeFormat MailDomain MailProg MaxArraySize MaxBatchRequeue MaxDBDMsgs"
    " MaxJobCount MaxJobId MaxNodeCount MaxStepCount MaxTasksPerNode MCSParameters MemLimitEnforce MessageTimeout"
    " MetricsAuthUsers MetricsParameters MetricsType MinJobAge MpiDefault MpiParams MsgAggregationParams NamespaceType"
    " NodeFeaturesPlugins OverTimeLimit PluginDir PlugStackConfig PowerParameters PowerPlugin PreemptExemptTime"
    " PreemptMode PreemptParameters PrEpParameters PrEpPlugins PriorityCalcPeriod PriorityDecayHalfLife"
    " PriorityFavorSmall PriorityFlags PriorityMaxAge PriorityParameters PrioritySiteFactorParameters"
    " PrioritySiteFactorPlugin PriorityType PriorityUsageResetPeriod PriorityWeightAge PriorityWeightAssoc"
    " PriorityWeightFairshare PriorityWeightJobSize PriorityWeightPartition PriorityWeightQOS PriorityWeightTRES"
    " PrivateData ProctrackType Prolog PrologEpilogTimeout PrologFlags PrologSlurmctld PrologTimeout"
    " PropagatePrioProcess PropagateResourceLimits PropagateResourceLimitsExcept RebootProgram ReconfigFlags"
    " RequeueExit RequeueExitHold ResumeFailProgram ResumeProgram ResumeRate ResumeTimeout ResvEpilog ResvOverRun"
    " ResvProlog ReturnToService RoutePlugin SallocDefaultCommand SbcastParameters SchedulerAuth SchedulerParameters"
    " SchedulerPort SchedulerRootFilter SchedulerTimeSlice SchedulerType ScronParameters SerializerParameters"
    " SerializerPlugins SlurmctldAddr SlurmctldDebug SlurmctldHost SlurmctldHttpAuthParameters SlurmctldLogFile"
    " SlurmctldParameters SlurmctldPidFile SlurmctldPlugstack SlurmctldPort SlurmctldPrimaryOffProg"
    " SlurmctldPrimaryOnProg SlurmctldSyslogDebug SlurmctldTimeout SlurmdDebug SlurmdHttpAuthParameters SlurmdLogFile"
    " SlurmdParameters SlurmdPidFile SlurmdPort SlurmdSpoolDir SlurmdSyslogDebug SlurmdTimeout SlurmdUser"
    " SlurmrestdHttpAuthParameters SlurmrestdParameters SlurmSchedLogFile SlurmSchedLogLevel SlurmstepdParameters"
    " SlurmUser SrunEpilog SrunPortRange SrunProlog StateSaveLocation SuspendExcNodes SuspendExcParts SuspendExcStates"
    " SuspendProgram SuspendRate SuspendTime SuspendTimeout SwitchParameters SwitchType TaskEpilog TaskPlugin"
    " TaskPluginParam TaskProlog TCPTimeout TLSParameters TLSType TmpFS TopologyParam TopologyPlugin TrackWCKey"
    " TreeWidth UnkillableStepProgram UnkillableStepTimeout UrlParserType UsePAM VSizeFactor WaitTime"
    " PowerAction FrontendName X11Parameters",
    preempttype="PREEMPT/NONE",
    mcsplugin="MCS/NONE",
)

JOB_KEYS = Keys.of(
    "JobId ArrayJobId ArrayTaskId ArrayTaskThrottle HetJobId HetJobOffset JobState Reason Dependency Partition"
    " ReqNodeList ExcNodeList NumNodes NumTasks CPUs/Task NtasksPerN:B:S:C Socks/Node ReqB:S:C:T MinCPUsNode"
    " MinMemoryCPU MinMemoryNode Features Reservation OverSubscribe Exclusive TresPerJob TresPerNode TresPerSocket"
    " TresPerTask CpusPerTres MemPerTres Licenses NodeList TimeLimit TRES AllocTRES"
    " Priority Hold",
    {
        "OverSubscribe": "--exclusive=user, mcs or topo",
        "Exclusive": "--exclusive=user, mcs or topo",
        "Contiguous": "--contiguous",
        "Network": "--network",
        "BurstBuffer": "a burst buffer",
        "MinTmpDiskNode": "--tmp",
        "CoreSpec": "--core-spec",
        "ThreadSpec": "--thread-spec",
        "Switches": "--switches",
        "SpreadJob": "--spread-job",
        "SegmentSize": "--segment",
        "SpreadSegments": "--spread-segments",
        "ConsolidateSegments": "--consolidate-segments",
        "NtasksPerTRES": "--ntasks-per-gpu",
        "NtasksPerSocket": "--ntasks-per-socket",
        "Prefer": "--prefer",
        "GresOneTaskPerSharing": "--gres-flags=one-task-per-sharing",
    },
    "JobName UserId GroupId MCS_label Nice Account QOS WCKey Requeue Restarts BatchFlag Reboot ExitCode"
    " DerivedExitCode RunTime TimeMin SubmitTime EligibleTime AccrueTime ResizeTime StartTime EndTime"
    " Deadline"
    " PreemptEligibleTime PreemptTime SuspendTime SecsPreSuspend LastSchedEval Scheduler AllocNode:Sid BatchFeatures"
    " BatchHost SchedNodeList NumCPUs ReqTRES DelayBoot ClusterFeatures Command SubmitLine"
    " WorkDir AdminComment SystemComment Comment Extra StdErr StdIn StdOut Power Container ContainerID FailedNode"
    " CronJob CrontabSpec StepMgrEnabled FedOrigin FedViableSiblings FedActiveSiblings HetJobIdSet JOB_GRES Nodes"
    " CPU_IDs Mem GRES LicensesAlloc BurstBufferState GresAllowTaskSharing GresEnforceBind KillOInInvalidDependent"
    " KillOnInvalidDependent ExpeditedRequeue OOMKillStep TresBind TresFreq MailUser MailType SELinuxContext ResvPorts"
    " SLUID MemUpdate Gres AbstractCores",
    oversubscribe="OK YES EXCLUSIVE",
    exclusive="NODE",
    switches="0@00:00:00 0@0",
)


class KeyReport:
    """Collects keys of lines that are not modelled or unknown, for one remark per key.

    Parameters
    ----------
    noun
        What a line describes, such as ``partition``.
    keys
        The keys of such a line.
    """

    def __init__(self, noun: str, keys: Keys) -> None:
        self._noun, self._keys = noun, keys
        self._not_modelled: defaultdict[str, list[str]] = defaultdict(list)
        self._unknown: Counter[str] = Counter()

    def add(self, name: str, values: Mapping[str, str]) -> None:
        """Count the keys of a line; ``name`` is what the line describes."""
        for key in self._keys.not_modelled(values):
            spelled = f"{self._keys.spelled[key]}={printable(values[key].strip())}"
            self._not_modelled[key].append(f"{spelled} of {self._noun} {printable(name)}" if name else spelled)
        self._unknown.update(self._keys.unknown(values))

    def remarks(self) -> list[str]:
        """Return a line for each key that is not modelled, and one for all unknown keys."""
        found = []
        for key, places in self._not_modelled.items():
            more = f" and {len(places) - 1} more" if len(places) > 1 else ""
            found.append(f"not modelled, {places[0]}{more}: {self._keys.reported[key]}")
        if self._unknown:
            told = ", ".join(f"{shown(key)} {count}" for key, count in _first(self._unknown))
            found.append(f"unknown keys of {self._noun}s, ignored: {told}")
        return found


_MOST_NAMED = 20


def _first(counts: Counter[str]) -> Iterable[tuple[str, int]]:
    listed = sorted(counts.items())
    yield from listed[:_MOST_NAMED]
    if len(listed) > _MOST_NAMED:
        yield "others", sum(count for _, count in listed[_MOST_NAMED:])
