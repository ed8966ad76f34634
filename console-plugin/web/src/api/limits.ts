// Generated from config/crd by `make generate`. Do not edit.
import type { Schema } from '../model/schema';

export const specSchema: Schema = {
  "type": "object",
  "properties": {
    "storage": {
      "type": "object",
      "properties": {
        "deviceClasses": {
          "type": "array",
          "items": {
            "type": "object",
            "properties": {
              "adopt": {
                "type": "array",
                "items": {
                  "type": "object",
                  "properties": {
                    "node": {
                      "type": "string",
                      "maxLength": 253,
                      "minLength": 1
                    },
                    "volumeGroupUUID": {
                      "type": "string",
                      "maxLength": 64,
                      "minLength": 1
                    }
                  },
                  "required": [
                    "node",
                    "volumeGroupUUID"
                  ]
                },
                "maxItems": 64
              },
              "adoptClusters": {
                "type": "array",
                "items": {
                  "type": "string",
                  "maxLength": 63,
                  "minLength": 1,
                  "pattern": "^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"
                },
                "maxItems": 8
              },
              "approval": {
                "type": "string",
                "enum": [
                  "Required"
                ]
              },
              "default": {
                "type": "boolean"
              },
              "deletedVolumeRetention": {
                "type": "string",
                "maxLength": 32,
                "pattern": "^([0-9]+(\\.[0-9]+)?(h|m|s))+$"
              },
              "deviceDiscoveryPolicy": {
                "type": "string",
                "enum": [
                  "Static",
                  "Dynamic"
                ]
              },
              "deviceRequests": {
                "type": "array",
                "items": {
                  "type": "object",
                  "properties": {
                    "action": {
                      "type": "string",
                      "enum": [
                        "Cordon",
                        "Drain",
                        "Remove"
                      ]
                    },
                    "device": {
                      "type": "string",
                      "maxLength": 512,
                      "minLength": 1
                    },
                    "node": {
                      "type": "string",
                      "maxLength": 253,
                      "minLength": 1
                    },
                    "suspend": {
                      "type": "boolean"
                    },
                    "suspendReason": {
                      "type": "string",
                      "maxLength": 1024
                    }
                  },
                  "required": [
                    "action",
                    "device",
                    "node"
                  ]
                },
                "maxItems": 64
              },
              "deviceResizePolicy": {
                "type": "string",
                "enum": [
                  "Manual",
                  "Automatic"
                ]
              },
              "deviceSelector": {
                "type": "object",
                "properties": {
                  "forceWipeDevicesAndDestroyAllData": {
                    "type": "boolean"
                  },
                  "labels": {
                    "type": "object",
                    "additionalProperties": {
                      "type": "string"
                    }
                  },
                  "maxSize": {
                    "type": "quantity"
                  },
                  "minSize": {
                    "type": "quantity"
                  },
                  "models": {
                    "type": "array",
                    "items": {
                      "type": "string",
                      "maxLength": 128,
                      "minLength": 1
                    },
                    "maxItems": 32
                  },
                  "optionalPaths": {
                    "type": "array",
                    "items": {
                      "type": "string",
                      "maxLength": 512,
                      "pattern": "^/dev(/+[^/.][^/]*)+$"
                    },
                    "maxItems": 128
                  },
                  "paths": {
                    "type": "array",
                    "items": {
                      "type": "string",
                      "maxLength": 512,
                      "pattern": "^/dev(/+[^/.][^/]*)+$"
                    },
                    "maxItems": 128
                  },
                  "removable": {
                    "type": "boolean"
                  },
                  "rotational": {
                    "type": "boolean"
                  },
                  "serials": {
                    "type": "array",
                    "items": {
                      "type": "string",
                      "maxLength": 128,
                      "minLength": 1
                    },
                    "maxItems": 128
                  },
                  "transports": {
                    "type": "array",
                    "items": {
                      "type": "string",
                      "maxLength": 128,
                      "minLength": 1
                    },
                    "maxItems": 16
                  },
                  "vendors": {
                    "type": "array",
                    "items": {
                      "type": "string",
                      "maxLength": 128,
                      "minLength": 1
                    },
                    "maxItems": 32
                  },
                  "wipeVolumeGroups": {
                    "type": "array",
                    "items": {
                      "type": "string",
                      "maxLength": 127,
                      "minLength": 1,
                      "pattern": "^[a-zA-Z0-9_.+][a-zA-Z0-9_.+-]*$"
                    },
                    "maxItems": 32
                  }
                }
              },
              "deviceSelectors": {
                "type": "array",
                "items": {
                  "type": "object",
                  "properties": {
                    "forceWipeDevicesAndDestroyAllData": {
                      "type": "boolean"
                    },
                    "labels": {
                      "type": "object",
                      "additionalProperties": {
                        "type": "string"
                      }
                    },
                    "maxSize": {
                      "type": "quantity"
                    },
                    "minSize": {
                      "type": "quantity"
                    },
                    "models": {
                      "type": "array",
                      "items": {
                        "type": "string",
                        "maxLength": 128,
                        "minLength": 1
                      },
                      "maxItems": 32
                    },
                    "nodeSelector": {
                      "type": "object",
                      "properties": {
                        "nodeSelectorTerms": {
                          "type": "array",
                          "items": {
                            "type": "object",
                            "properties": {
                              "matchExpressions": {
                                "type": "array",
                                "items": {
                                  "type": "object",
                                  "properties": {
                                    "key": {
                                      "type": "string"
                                    },
                                    "operator": {
                                      "type": "string"
                                    },
                                    "values": {
                                      "type": "array",
                                      "items": {
                                        "type": "string"
                                      }
                                    }
                                  },
                                  "required": [
                                    "key",
                                    "operator"
                                  ]
                                }
                              },
                              "matchFields": {
                                "type": "array",
                                "items": {
                                  "type": "object",
                                  "properties": {
                                    "key": {
                                      "type": "string"
                                    },
                                    "operator": {
                                      "type": "string"
                                    },
                                    "values": {
                                      "type": "array",
                                      "items": {
                                        "type": "string"
                                      }
                                    }
                                  },
                                  "required": [
                                    "key",
                                    "operator"
                                  ]
                                }
                              }
                            }
                          }
                        }
                      },
                      "required": [
                        "nodeSelectorTerms"
                      ]
                    },
                    "optionalPaths": {
                      "type": "array",
                      "items": {
                        "type": "string",
                        "maxLength": 512,
                        "pattern": "^/dev(/+[^/.][^/]*)+$"
                      },
                      "maxItems": 128
                    },
                    "paths": {
                      "type": "array",
                      "items": {
                        "type": "string",
                        "maxLength": 512,
                        "pattern": "^/dev(/+[^/.][^/]*)+$"
                      },
                      "maxItems": 128
                    },
                    "removable": {
                      "type": "boolean"
                    },
                    "rotational": {
                      "type": "boolean"
                    },
                    "serials": {
                      "type": "array",
                      "items": {
                        "type": "string",
                        "maxLength": 128,
                        "minLength": 1
                      },
                      "maxItems": 128
                    },
                    "transports": {
                      "type": "array",
                      "items": {
                        "type": "string",
                        "maxLength": 128,
                        "minLength": 1
                      },
                      "maxItems": 16
                    },
                    "vendors": {
                      "type": "array",
                      "items": {
                        "type": "string",
                        "maxLength": 128,
                        "minLength": 1
                      },
                      "maxItems": 32
                    },
                    "wipeVolumeGroups": {
                      "type": "array",
                      "items": {
                        "type": "string",
                        "maxLength": 127,
                        "minLength": 1,
                        "pattern": "^[a-zA-Z0-9_.+][a-zA-Z0-9_.+-]*$"
                      },
                      "maxItems": 32
                    }
                  }
                },
                "maxItems": 16
              },
              "eraseOnDelete": {
                "type": "string",
                "enum": [
                  "None",
                  "Discard",
                  "Zero"
                ]
              },
              "existingVolumeGroup": {
                "type": "string",
                "maxLength": 127,
                "minLength": 1,
                "pattern": "^[a-zA-Z0-9_.+][a-zA-Z0-9_.+-]*$"
              },
              "existingVolumeGroupConfig": {
                "type": "object",
                "properties": {
                  "allocation": {
                    "type": "string",
                    "enum": [
                      "Any",
                      "SingleDevice"
                    ]
                  },
                  "lvcreateOptions": {
                    "type": "array",
                    "items": {
                      "type": "string",
                      "maxLength": 64
                    },
                    "maxItems": 16
                  },
                  "spareGiB": {
                    "type": "integer",
                    "maximum": 1048576,
                    "minimum": 0
                  },
                  "stripeSize": {
                    "type": "quantity"
                  },
                  "stripes": {
                    "type": "integer",
                    "maximum": 128,
                    "minimum": 2
                  }
                }
              },
              "fstype": {
                "type": "string",
                "enum": [
                  "xfs",
                  "ext4"
                ]
              },
              "name": {
                "type": "string",
                "maxLength": 245,
                "minLength": 1,
                "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
              },
              "namespaceLimits": {
                "type": "array",
                "items": {
                  "type": "object",
                  "properties": {
                    "namespace": {
                      "type": "string",
                      "maxLength": 63,
                      "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"
                    },
                    "perNode": {
                      "type": "quantity"
                    }
                  },
                  "required": [
                    "perNode"
                  ]
                },
                "maxItems": 32
              },
              "nodeSelector": {
                "type": "object",
                "properties": {
                  "nodeSelectorTerms": {
                    "type": "array",
                    "items": {
                      "type": "object",
                      "properties": {
                        "matchExpressions": {
                          "type": "array",
                          "items": {
                            "type": "object",
                            "properties": {
                              "key": {
                                "type": "string"
                              },
                              "operator": {
                                "type": "string"
                              },
                              "values": {
                                "type": "array",
                                "items": {
                                  "type": "string"
                                }
                              }
                            },
                            "required": [
                              "key",
                              "operator"
                            ]
                          }
                        },
                        "matchFields": {
                          "type": "array",
                          "items": {
                            "type": "object",
                            "properties": {
                              "key": {
                                "type": "string"
                              },
                              "operator": {
                                "type": "string"
                              },
                              "values": {
                                "type": "array",
                                "items": {
                                  "type": "string"
                                }
                              }
                            },
                            "required": [
                              "key",
                              "operator"
                            ]
                          }
                        }
                      }
                    }
                  }
                },
                "required": [
                  "nodeSelectorTerms"
                ]
              },
              "raidConfig": {
                "type": "object",
                "properties": {
                  "mirrors": {
                    "type": "integer",
                    "maximum": 9,
                    "minimum": 1
                  },
                  "stripeSize": {
                    "type": "quantity"
                  },
                  "stripes": {
                    "type": "integer",
                    "maximum": 60,
                    "minimum": 2
                  },
                  "type": {
                    "type": "string",
                    "enum": [
                      "raid1",
                      "raid4",
                      "raid5",
                      "raid6",
                      "raid10"
                    ]
                  }
                },
                "required": [
                  "type"
                ]
              },
              "storageClassOptions": {
                "type": "object",
                "properties": {
                  "additionalLabels": {
                    "type": "object",
                    "additionalProperties": {
                      "type": "string"
                    }
                  },
                  "additionalParameters": {
                    "type": "object",
                    "additionalProperties": {
                      "type": "string"
                    }
                  },
                  "reclaimPolicy": {
                    "type": "string",
                    "enum": [
                      "Delete",
                      "Retain"
                    ]
                  },
                  "volumeBindingMode": {
                    "type": "string",
                    "enum": [
                      "WaitForFirstConsumer",
                      "Immediate"
                    ]
                  }
                }
              },
              "thickConfig": {
                "type": "object",
                "properties": {
                  "allocation": {
                    "type": "string",
                    "enum": [
                      "Any",
                      "SingleDevice"
                    ]
                  },
                  "lvcreateOptions": {
                    "type": "array",
                    "items": {
                      "type": "string",
                      "maxLength": 64
                    },
                    "maxItems": 1
                  },
                  "stripeSize": {
                    "type": "quantity"
                  },
                  "stripes": {
                    "type": "integer",
                    "maximum": 128,
                    "minimum": 2
                  }
                }
              },
              "thinPoolConfig": {
                "type": "object",
                "properties": {
                  "autoExtend": {
                    "type": "object",
                    "properties": {
                      "stepPercent": {
                        "type": "integer",
                        "maximum": 100,
                        "minimum": 5
                      },
                      "thresholdPercent": {
                        "type": "integer",
                        "maximum": 95,
                        "minimum": 50
                      }
                    }
                  },
                  "chunkSize": {
                    "type": "quantity"
                  },
                  "chunkSizeCalculationPolicy": {
                    "type": "string",
                    "enum": [
                      "Host",
                      "Static"
                    ]
                  },
                  "discards": {
                    "type": "string",
                    "enum": [
                      "PassDown",
                      "NoPassDown"
                    ]
                  },
                  "highWaterMarkPercent": {
                    "type": "integer",
                    "maximum": 100,
                    "minimum": 50
                  },
                  "metadataSize": {
                    "type": "quantity"
                  },
                  "metadataSizeCalculationPolicy": {
                    "type": "string",
                    "enum": [
                      "Host",
                      "Static"
                    ]
                  },
                  "name": {
                    "type": "string",
                    "maxLength": 107,
                    "minLength": 1,
                    "pattern": "^[a-zA-Z0-9_+.][a-zA-Z0-9_+.-]*$"
                  },
                  "overprovisionRatio": {
                    "type": "integer",
                    "maximum": 100,
                    "minimum": 1
                  },
                  "sizePercent": {
                    "type": "integer",
                    "maximum": 100,
                    "minimum": 10
                  },
                  "stripeSize": {
                    "type": "quantity"
                  },
                  "stripes": {
                    "type": "integer",
                    "maximum": 60,
                    "minimum": 2
                  }
                },
                "required": [
                  "name",
                  "overprovisionRatio"
                ]
              },
              "trim": {
                "type": "object",
                "properties": {
                  "poolUsageThresholdPercent": {
                    "type": "integer",
                    "maximum": 99,
                    "minimum": 10
                  },
                  "schedule": {
                    "type": "string",
                    "enum": [
                      "None",
                      "Daily",
                      "Weekly"
                    ]
                  }
                }
              },
              "volumeSnapshotClassOptions": {
                "type": "object",
                "properties": {
                  "deletionPolicy": {
                    "type": "string",
                    "enum": [
                      "Delete",
                      "Retain"
                    ]
                  }
                }
              }
            },
            "required": [
              "name"
            ]
          },
          "maxItems": 24
        }
      }
    },
    "tolerations": {
      "type": "array",
      "items": {
        "type": "object",
        "properties": {
          "effect": {
            "type": "string"
          },
          "key": {
            "type": "string"
          },
          "operator": {
            "type": "string"
          },
          "tolerationSeconds": {
            "type": "integer"
          },
          "value": {
            "type": "string"
          }
        }
      }
    },
    "volumeCopy": {
      "type": "object",
      "properties": {
        "bandwidthLimit": {
          "type": "quantity"
        }
      }
    }
  }
};

/** Defaults of the fields of a device class. */
export const DEFAULTS = {
  "fstype": "xfs",
  "thinPoolConfig.autoExtend.stepPercent": 20,
  "thinPoolConfig.autoExtend.thresholdPercent": 80,
  "thinPoolConfig.chunkSizeCalculationPolicy": "Static",
  "thinPoolConfig.highWaterMarkPercent": 95,
  "thinPoolConfig.metadataSizeCalculationPolicy": "Host",
  "thinPoolConfig.sizePercent": 90,
  "trim.schedule": "Weekly"
} as const;

/** Fields of a device class that cannot change once they are set. */
export const IMMUTABLE = [
  "existingVolumeGroup",
  "fstype",
  "raidConfig",
  "storageClassOptions.additionalParameters",
  "storageClassOptions.reclaimPolicy",
  "storageClassOptions.volumeBindingMode",
  "thinPoolConfig.name",
  "thinPoolConfig.sizePercent"
] as const;
