// Generated from config/crd by `make generate`. Do not edit.
export interface components {
    schemas: {
        LVMCluster: {
            spec?: {
                storage?: {
                    deviceClasses?: {
                        adopt?: {
                            node: string;
                            volumeGroupUUID: string;
                        }[];
                        adoptClusters?: string[];
                        /** @enum {string} */
                        approval?: "Required";
                        default?: boolean;
                        deletedVolumeRetention?: string;
                        /** @enum {string} */
                        deviceDiscoveryPolicy?: "Static" | "Dynamic";
                        deviceRequests?: {
                            /** @enum {string} */
                            action: "Cordon" | "Drain" | "Remove";
                            device: string;
                            node: string;
                            suspend?: boolean;
                            suspendReason?: string;
                        }[];
                        /** @enum {string} */
                        deviceResizePolicy?: "Manual" | "Automatic";
                        deviceSelector?: {
                            forceWipeDevicesAndDestroyAllData?: boolean;
                            labels?: {
                                [key: string]: string;
                            };
                            maxSize?: number | string;
                            minSize?: number | string;
                            models?: string[];
                            optionalPaths?: string[];
                            paths?: string[];
                            removable?: boolean;
                            rotational?: boolean;
                            serials?: string[];
                            transports?: string[];
                            vendors?: string[];
                            wipeVolumeGroups?: string[];
                        };
                        deviceSelectors?: {
                            forceWipeDevicesAndDestroyAllData?: boolean;
                            labels?: {
                                [key: string]: string;
                            };
                            maxSize?: number | string;
                            minSize?: number | string;
                            models?: string[];
                            nodeSelector?: {
                                nodeSelectorTerms: {
                                    matchExpressions?: {
                                        key: string;
                                        operator: string;
                                        values?: string[];
                                    }[];
                                    matchFields?: {
                                        key: string;
                                        operator: string;
                                        values?: string[];
                                    }[];
                                }[];
                            };
                            optionalPaths?: string[];
                            paths?: string[];
                            removable?: boolean;
                            rotational?: boolean;
                            serials?: string[];
                            transports?: string[];
                            vendors?: string[];
                            wipeVolumeGroups?: string[];
                        }[];
                        /** @enum {string} */
                        eraseOnDelete?: "None" | "Discard" | "Zero";
                        existingVolumeGroup?: string;
                        existingVolumeGroupConfig?: {
                            /** @enum {string} */
                            allocation?: "Any" | "SingleDevice";
                            lvcreateOptions?: string[];
                            /** Format: int64 */
                            spareGiB?: number;
                            stripeSize?: number | string;
                            /** Format: int32 */
                            stripes?: number;
                        };
                        /**
                         * @default xfs
                         * @enum {string}
                         */
                        fstype?: "xfs" | "ext4";
                        name: string;
                        namespaceLimits?: {
                            /** @default  */
                            namespace?: string;
                            perNode: number | string;
                        }[];
                        nodeSelector?: {
                            nodeSelectorTerms: {
                                matchExpressions?: {
                                    key: string;
                                    operator: string;
                                    values?: string[];
                                }[];
                                matchFields?: {
                                    key: string;
                                    operator: string;
                                    values?: string[];
                                }[];
                            }[];
                        };
                        raidConfig?: {
                            /** Format: int32 */
                            mirrors?: number;
                            stripeSize?: number | string;
                            /** Format: int32 */
                            stripes?: number;
                            /** @enum {string} */
                            type: "raid1" | "raid4" | "raid5" | "raid6" | "raid10";
                        };
                        storageClassOptions?: {
                            additionalLabels?: {
                                [key: string]: string;
                            };
                            additionalParameters?: {
                                [key: string]: string;
                            };
                            /** @enum {string} */
                            reclaimPolicy?: "Delete" | "Retain";
                            /** @enum {string} */
                            volumeBindingMode?: "WaitForFirstConsumer" | "Immediate";
                        };
                        thickConfig?: {
                            /** @enum {string} */
                            allocation?: "Any" | "SingleDevice";
                            lvcreateOptions?: string[];
                            stripeSize?: number | string;
                            /** Format: int32 */
                            stripes?: number;
                        };
                        thinPoolConfig?: {
                            autoExtend?: {
                                /** @default 20 */
                                stepPercent?: number;
                                /** @default 80 */
                                thresholdPercent?: number;
                            };
                            chunkSize?: number | string;
                            /**
                             * @default Static
                             * @enum {string}
                             */
                            chunkSizeCalculationPolicy?: "Host" | "Static";
                            /** @enum {string} */
                            discards?: "PassDown" | "NoPassDown";
                            /** @default 95 */
                            highWaterMarkPercent?: number;
                            metadataSize?: number | string;
                            /**
                             * @default Host
                             * @enum {string}
                             */
                            metadataSizeCalculationPolicy?: "Host" | "Static";
                            name: string;
                            overprovisionRatio: number;
                            /** @default 90 */
                            sizePercent?: number;
                            stripeSize?: number | string;
                            /** Format: int32 */
                            stripes?: number;
                        };
                        trim?: {
                            poolUsageThresholdPercent?: number;
                            /**
                             * @default Weekly
                             * @enum {string}
                             */
                            schedule?: "None" | "Daily" | "Weekly";
                        };
                        volumeSnapshotClassOptions?: {
                            /** @enum {string} */
                            deletionPolicy?: "Delete" | "Retain";
                        };
                    }[];
                };
                tolerations?: {
                    effect?: string;
                    key?: string;
                    operator?: string;
                    /** Format: int64 */
                    tolerationSeconds?: number;
                    value?: string;
                }[];
                volumeCopy?: {
                    bandwidthLimit?: number | string;
                };
            };
            status?: {
                conditions?: {
                    /** Format: date-time */
                    lastTransitionTime: string;
                    message: string;
                    /** Format: int64 */
                    observedGeneration?: number;
                    reason: string;
                    /** @enum {string} */
                    status: "True" | "False" | "Unknown";
                    type: string;
                }[];
                deviceClassStatuses?: {
                    name: string;
                    nodeStatus?: {
                        conditions?: {
                            /** Format: date-time */
                            lastTransitionTime: string;
                            message: string;
                            /** Format: int64 */
                            observedGeneration?: number;
                            reason: string;
                            /** @enum {string} */
                            status: "True" | "False" | "Unknown";
                            type: string;
                        }[];
                        devices?: string[];
                        excluded?: {
                            name: string;
                            reasons: string[];
                        }[];
                        free?: number | string;
                        metadataArea?: {
                            free: number | string;
                            size: number | string;
                        };
                        name: string;
                        node: string;
                        /** Format: int64 */
                        observedGeneration?: number;
                        /** Format: int32 */
                        orphanCount?: number;
                        orphans?: {
                            claim?: string;
                            /** Format: date-time */
                            created?: string;
                            /** @enum {string} */
                            kind: "LogicalVolume" | "Object" | "Unclaimed" | "OtherNode";
                            name: string;
                            object?: string;
                            objectNode?: string;
                            /** Format: date-time */
                            removalTime?: string;
                            size?: number | string;
                        }[];
                        physicalVolumes?: {
                            deviceID?: string;
                            free?: number | string;
                            message?: string;
                            /** Format: int32 */
                            movedPercent?: number;
                            name?: string;
                            path?: string;
                            requestedAs?: string;
                            size?: number | string;
                            state: string;
                            suspended?: boolean;
                            uuid: string;
                        }[];
                        raidStatus?: {
                            /** Format: int32 */
                            degradedMemberCount: number;
                            lvHealth?: {
                                healthStatus?: string;
                                name: string;
                                raidType: string;
                                /** Format: int32 */
                                syncPercent?: number;
                            }[];
                            /** Format: int32 */
                            memberCount: number;
                            /** Format: int32 */
                            minSyncPercent?: number;
                            status: string;
                        };
                        reason?: string;
                        /** Format: int64 */
                        seqno?: number;
                        size?: number | string;
                        status?: string;
                        thinPool?: {
                            chunkSize?: number | string;
                            copyFree?: number | string;
                            /** Format: int32 */
                            dataPercent: number;
                            free?: number | string;
                            /** Format: int32 */
                            metadataPercent: number;
                            metadataSize: number | string;
                            name: string;
                            size: number | string;
                            virtualFree?: number | string;
                            virtualSize?: number | string;
                        };
                        uuid?: string;
                        volumeGroup?: string;
                        wipedDevices?: {
                            backup?: string;
                            found?: string[];
                            id: string;
                            name: string;
                            names?: string[];
                            /** Format: date-time */
                            time: string;
                            volumeGroups?: string[];
                        }[];
                    }[];
                }[];
                free?: number | string;
                /** Format: int64 */
                observedGeneration?: number;
                ready?: boolean;
                size?: number | string;
                state?: string;
                volumeGroups?: string;
            };
        };
        LVMVolumeGroupNodeStatus: {
            spec?: {
                deviceLabels?: {
                    id: string;
                    labels: {
                        [key: string]: string;
                    };
                }[];
                nodeStatus?: {
                    /** @enum {string} */
                    deviceDiscoveryPolicy?: "RuntimeStatic" | "RuntimeDynamic" | "Preconfigured";
                    devices?: string[];
                    excluded?: {
                        name: string;
                        reasons: string[];
                    }[];
                    name: string;
                    raidStatus?: {
                        /** Format: int32 */
                        degradedMemberCount: number;
                        lvHealth?: {
                            healthStatus?: string;
                            name: string;
                            raidType: string;
                            /** Format: int32 */
                            syncPercent?: number;
                        }[];
                        /** Format: int32 */
                        memberCount: number;
                        /** Format: int32 */
                        minSyncPercent?: number;
                        status: string;
                    };
                    reason?: string;
                    status?: string;
                }[];
            };
            status?: {
                agentCertificate?: {
                    authorities?: string;
                    certificate?: string;
                    message?: string;
                    request?: string;
                };
                conditions?: {
                    /** Format: date-time */
                    lastTransitionTime: string;
                    message: string;
                    /** Format: int64 */
                    observedGeneration?: number;
                    reason: string;
                    /** @enum {string} */
                    status: "True" | "False" | "Unknown";
                    type: string;
                }[];
                devices?: {
                    byID?: string[];
                    byPath?: string[];
                    eligibility?: {
                        deviceClass: string;
                        eligible: boolean;
                        reasons?: string[];
                    }[];
                    fingerprint?: string;
                    /** Format: date-time */
                    firstSeen?: string;
                    holders?: string[];
                    id?: string;
                    kernelName?: string;
                    labels?: {
                        [key: string]: string;
                    };
                    /** Format: date-time */
                    lastSeen?: string;
                    model?: string;
                    mountPoints?: string[];
                    name: string;
                    partitions?: string[];
                    pvUUID?: string;
                    readOnly?: boolean;
                    reasons?: {
                        code: string;
                        message?: string;
                    }[];
                    removable?: boolean;
                    rotational?: boolean;
                    serial?: string;
                    signatures?: {
                        label?: string;
                        type: string;
                        uuid?: string;
                    }[];
                    size?: number | string;
                    state: string;
                    transport?: string;
                    type?: string;
                    vendor?: string;
                    volumeGroup?: string;
                    volumeGroupUUID?: string;
                    wwn?: string;
                }[];
                /** Format: int32 */
                devicesOmitted?: number;
                /** Format: date-time */
                lastObserved?: string;
                lvm?: {
                    /** @enum {string} */
                    source: "Host" | "Image";
                    version?: string;
                };
                nodeStatus?: {
                    conditions?: {
                        /** Format: date-time */
                        lastTransitionTime: string;
                        message: string;
                        /** Format: int64 */
                        observedGeneration?: number;
                        reason: string;
                        /** @enum {string} */
                        status: "True" | "False" | "Unknown";
                        type: string;
                    }[];
                    devices?: string[];
                    excluded?: {
                        name: string;
                        reasons: string[];
                    }[];
                    free?: number | string;
                    metadataArea?: {
                        free: number | string;
                        size: number | string;
                    };
                    name: string;
                    /** Format: int64 */
                    observedGeneration?: number;
                    /** Format: int32 */
                    orphanCount?: number;
                    orphans?: {
                        claim?: string;
                        /** Format: date-time */
                        created?: string;
                        /** @enum {string} */
                        kind: "LogicalVolume" | "Object" | "Unclaimed" | "OtherNode";
                        name: string;
                        object?: string;
                        objectNode?: string;
                        /** Format: date-time */
                        removalTime?: string;
                        size?: number | string;
                    }[];
                    physicalVolumes?: {
                        deviceID?: string;
                        free?: number | string;
                        message?: string;
                        /** Format: int32 */
                        movedPercent?: number;
                        name?: string;
                        path?: string;
                        requestedAs?: string;
                        size?: number | string;
                        state: string;
                        suspended?: boolean;
                        uuid: string;
                    }[];
                    raidStatus?: {
                        /** Format: int32 */
                        degradedMemberCount: number;
                        lvHealth?: {
                            healthStatus?: string;
                            name: string;
                            raidType: string;
                            /** Format: int32 */
                            syncPercent?: number;
                        }[];
                        /** Format: int32 */
                        memberCount: number;
                        /** Format: int32 */
                        minSyncPercent?: number;
                        status: string;
                    };
                    reason?: string;
                    /** Format: int64 */
                    seqno?: number;
                    size?: number | string;
                    status?: string;
                    thinPool?: {
                        chunkSize?: number | string;
                        copyFree?: number | string;
                        /** Format: int32 */
                        dataPercent: number;
                        free?: number | string;
                        /** Format: int32 */
                        metadataPercent: number;
                        metadataSize: number | string;
                        name: string;
                        size: number | string;
                        virtualFree?: number | string;
                        virtualSize?: number | string;
                    };
                    uuid?: string;
                    volumeGroup?: string;
                    wipedDevices?: {
                        backup?: string;
                        found?: string[];
                        id: string;
                        name: string;
                        names?: string[];
                        /** Format: date-time */
                        time: string;
                        volumeGroups?: string[];
                    }[];
                }[];
            };
        };
        LVMRecovery: {
            spec: {
                /** @enum {string} */
                action: "RemoveLostDevices" | "RepairThinPool" | "RestoreLabels" | "RestoreMetadata" | "FreePoolSpace" | "DeleteOrphans" | "ImportVolumes" | "CheckFileSystems" | "AcceptMetadata";
                approvedPlan?: string;
                claims?: {
                    name: string;
                    namespace: string;
                    volume: string;
                }[];
                deviceClassName: string;
                nodeName: string;
                volumes?: string[];
            };
            status?: {
                /** Format: date-time */
                completionTime?: string;
                conditions?: {
                    /** Format: date-time */
                    lastTransitionTime: string;
                    message: string;
                    /** Format: int64 */
                    observedGeneration?: number;
                    reason: string;
                    /** @enum {string} */
                    status: "True" | "False" | "Unknown";
                    type: string;
                }[];
                /** Format: int64 */
                freedBytes?: number;
                message?: string;
                phase?: string;
                plan?: {
                    checkedVolumes?: {
                        /** Format: int64 */
                        allocatedBytes?: number;
                        claim?: string;
                        /** Format: date-time */
                        created?: string;
                        finding?: string;
                        fromNode?: string;
                        fsType?: string;
                        /** Format: date-time */
                        lastMountTime?: string;
                        /** Format: int64 */
                        lostBytes?: number;
                        name: string;
                        persistentVolume?: string;
                        /** Format: int64 */
                        size?: number;
                        /** Format: int64 */
                        usedBytes?: number;
                        uuid?: string;
                    }[];
                    /** Format: date-time */
                    creationTime: string;
                    damagedVolumes?: {
                        /** Format: int64 */
                        allocatedBytes?: number;
                        claim?: string;
                        /** Format: date-time */
                        created?: string;
                        finding?: string;
                        fromNode?: string;
                        fsType?: string;
                        /** Format: date-time */
                        lastMountTime?: string;
                        /** Format: int64 */
                        lostBytes?: number;
                        name: string;
                        persistentVolume?: string;
                        /** Format: int64 */
                        size?: number;
                        /** Format: int64 */
                        usedBytes?: number;
                        uuid?: string;
                    }[];
                    devices: {
                        deviceID?: string;
                        name?: string;
                        uuid: string;
                    }[];
                    /** Format: int64 */
                    extensibleBytes?: number;
                    failingDevices?: {
                        deviceID?: string;
                        name?: string;
                        uuid: string;
                    }[];
                    id: string;
                    importedVolumes?: {
                        /** Format: int64 */
                        allocatedBytes?: number;
                        claim?: string;
                        /** Format: date-time */
                        created?: string;
                        finding?: string;
                        fromNode?: string;
                        fsType?: string;
                        /** Format: date-time */
                        lastMountTime?: string;
                        /** Format: int64 */
                        lostBytes?: number;
                        name: string;
                        persistentVolume?: string;
                        /** Format: int64 */
                        size?: number;
                        /** Format: int64 */
                        usedBytes?: number;
                        uuid?: string;
                    }[];
                    /** Format: int32 */
                    keptVolumeCount: number;
                    /** Format: int32 */
                    lostVolumeCount: number;
                    lostVolumes?: {
                        /** Format: int64 */
                        allocatedBytes?: number;
                        claim?: string;
                        /** Format: date-time */
                        created?: string;
                        finding?: string;
                        fromNode?: string;
                        fsType?: string;
                        /** Format: date-time */
                        lastMountTime?: string;
                        /** Format: int64 */
                        lostBytes?: number;
                        name: string;
                        persistentVolume?: string;
                        /** Format: int64 */
                        size?: number;
                        /** Format: int64 */
                        usedBytes?: number;
                        uuid?: string;
                    }[];
                    metadataSource?: string;
                    /** Format: int32 */
                    mountedVolumeCount?: number;
                    mountedVolumes?: {
                        /** Format: int64 */
                        allocatedBytes?: number;
                        claim?: string;
                        /** Format: date-time */
                        created?: string;
                        finding?: string;
                        fromNode?: string;
                        fsType?: string;
                        /** Format: date-time */
                        lastMountTime?: string;
                        /** Format: int64 */
                        lostBytes?: number;
                        name: string;
                        persistentVolume?: string;
                        /** Format: int64 */
                        size?: number;
                        /** Format: int64 */
                        usedBytes?: number;
                        uuid?: string;
                    }[];
                    repair?: string;
                    replacesMetadata?: boolean;
                    thinPools?: {
                        /** Format: int64 */
                        allocatedBytes?: number;
                        claim?: string;
                        /** Format: date-time */
                        created?: string;
                        finding?: string;
                        fromNode?: string;
                        fsType?: string;
                        /** Format: date-time */
                        lastMountTime?: string;
                        /** Format: int64 */
                        lostBytes?: number;
                        name: string;
                        persistentVolume?: string;
                        /** Format: int64 */
                        size?: number;
                        /** Format: int64 */
                        usedBytes?: number;
                        uuid?: string;
                    }[];
                    volumeGroupUUID?: string;
                };
                /** Format: date-time */
                startTime?: string;
            };
        };
        LVMDeviceApproval: {
            spec: {
                approvedBy: string;
                device: string;
                deviceClassName: string;
                fingerprint: string;
                nodeName: string;
            };
        };
        VolumeMove: {
            spec: {
                claim: {
                    name: string;
                    namespace: string;
                };
                /** @default 24h */
                keepSource?: string;
                /** @default 30s */
                maxPause?: string;
                nodeName?: string;
            };
            status?: {
                conditions?: {
                    /** Format: date-time */
                    lastTransitionTime: string;
                    message: string;
                    /** Format: int64 */
                    observedGeneration?: number;
                    reason: string;
                    /** @enum {string} */
                    status: "True" | "False" | "Unknown";
                    type: string;
                }[];
                /** Format: int64 */
                copiedBytes?: number;
                deviceClass?: string;
                /** Format: int64 */
                lastDeltaBytes?: number;
                /** Format: int64 */
                lastDeltaSeconds?: number;
                message?: string;
                persistentVolume?: string;
                phase?: string;
                /** Format: int32 */
                podCount?: number;
                pods?: string[];
                /** Format: int64 */
                progressBytes?: number;
                /** Format: date-time */
                progressTime?: string;
                /** Format: int32 */
                queuePosition?: number;
                /** Format: int32 */
                round?: number;
                sourceNode?: string;
                /** Format: date-time */
                sourceRemovalTime?: string;
                /** Format: date-time */
                startTime?: string;
                /** Format: date-time */
                switchTime?: string;
                targetNode?: string;
                thick?: boolean;
                /** Format: int64 */
                totalBytes?: number;
            };
        };
        LogicalVolume: {
            spec?: {
                accessType?: string;
                deviceClass?: string;
                lvcreateOptionClass?: string;
                name: string;
                nodeName: string;
                size: number | string;
                source?: string;
            };
            status?: {
                /** Format: int32 */
                code?: number;
                currentSize?: number | string;
                message?: string;
                volumeID?: string;
            };
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
