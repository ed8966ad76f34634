package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// SizeCalculationPolicy controls how a size is determined.
type SizeCalculationPolicy string

// The policies of chunk and metadata size: LVM on the host chooses, or the LVMCluster says.
const (
	SizeCalculationHost   SizeCalculationPolicy = "Host"
	SizeCalculationStatic SizeCalculationPolicy = "Static"
)

// ThinPoolConfig is the configuration of the thin pool of a device class.
//
// +kubebuilder:validation:XValidation:rule="self.name == oldSelf.name",message="name is immutable, because the thin pools already exist: create a new device class"
// +kubebuilder:validation:XValidation:rule="self.sizePercent == oldSelf.sizePercent",message="sizePercent is immutable: to extend existing thin pools, set autoExtend or add devices"
// +kubebuilder:validation:XValidation:rule="!has(self.autoExtend) || self.autoExtend.thresholdPercent <= self.highWaterMarkPercent",message="autoExtend.thresholdPercent must not be greater than highWaterMarkPercent: the thin pool would reject new volumes before it is extended"
// +kubebuilder:validation:XValidation:rule="!has(self.stripeSize) || has(self.stripes)",message="stripeSize requires stripes"
// +kubebuilder:validation:XValidation:rule="has(self.stripes) == has(oldSelf.stripes) && (!has(self.stripes) || self.stripes == oldSelf.stripes) && has(self.stripeSize) == has(oldSelf.stripeSize) && (!has(self.stripeSize) || self.stripeSize == oldSelf.stripeSize)",message="stripes and stripeSize are immutable, because the data of existing thin pools is not moved: create a new device class"
type ThinPoolConfig struct {
	// name is the name of the thin pool in the volume group. It is immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=107
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9_+.][a-zA-Z0-9_+.-]*$`
	Name string `json:"name"`

	// sizePercent is the percentage of the free space of the volume group that the thin pool uses when it is created.
	// Above 90, there may be no space to extend the metadata. It is immutable.
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=90
	SizePercent int `json:"sizePercent,omitempty"`

	// overprovisionRatio is the maximum ratio of the total size of the volumes to the size of the thin pool.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	OverprovisionRatio int `json:"overprovisionRatio"`

	// highWaterMarkPercent is the usage of data or metadata at which the thin pool accepts no new volumes, snapshots or
	// expansions. The remaining space is reserved for existing volumes. With 100, the thin pool accepts new volumes
	// until it is full.
	// +kubebuilder:validation:Minimum=50
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=95
	HighWaterMarkPercent int `json:"highWaterMarkPercent,omitempty"`

	// chunkSizeCalculationPolicy is Static to use chunkSize, or Host to let LVM choose. It cannot be changed once a
	// node has the thin pool.
	// +kubebuilder:validation:Enum=Host;Static
	// +kubebuilder:default=Static
	ChunkSizeCalculationPolicy SizeCalculationPolicy `json:"chunkSizeCalculationPolicy,omitempty"`

	// chunkSize is the chunk size of the thin pool: a multiple of 64Ki, from 64Ki to 1Gi. Defaults to 128Ki, or on a
	// node with a large pool to the smallest power of two that allows the pool to double in size: 256Ki for 16 TiB,
	// 512Ki for 32 TiB. It cannot be changed once a node has the thin pool.
	ChunkSize *resource.Quantity `json:"chunkSize,omitempty"`

	// stripes is the number of devices that the data of the thin pool is striped over, so that volumes have the
	// throughput of all of them. The thin pool is created if the node has that many devices, and extended if that many
	// devices have free space. It is lost with the first of its devices. It is immutable. By default, LVM fills one
	// device after the other.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=60
	Stripes *int32 `json:"stripes,omitempty"`

	// stripeSize is the amount of data that is written to one device before the next: a power of two from 4Ki to 4Mi.
	// Defaults to 64Ki. It is immutable.
	StripeSize *resource.Quantity `json:"stripeSize,omitempty"`

	// metadataSizeCalculationPolicy is Static to use metadataSize, or Host to let LVM choose. After a change to Static,
	// a thin pool with less metadata than metadataSize is extended.
	// +kubebuilder:validation:Enum=Host;Static
	// +kubebuilder:default=Host
	MetadataSizeCalculationPolicy SizeCalculationPolicy `json:"metadataSizeCalculationPolicy,omitempty"`

	// metadataSize is the size of the metadata of the thin pool, from 2Mi to 16Gi. Defaults to 1Gi. It can be
	// increased, which extends existing thin pools.
	MetadataSize *resource.Quantity `json:"metadataSize,omitempty"`

	// discards is what the thin pool does with the blocks that it takes back from its volumes: PassDown also discards
	// them on the devices of the volume group, if the devices support it; NoPassDown only takes them back. If not set,
	// LVM of the node decides for a new thin pool (PassDown by default), and an existing one stays as it is. It can be
	// changed at any time.
	Discards DiscardMode `json:"discards,omitempty"`

	// autoExtend extends data and metadata of the thin pool within the volume group before they are full. It requires a
	// sizePercent below 100, or a device that is added later. Without it, the thin pool keeps its size.
	AutoExtend *AutoExtend `json:"autoExtend,omitempty"`
}

// DiscardMode says whether a thin pool passes discards to its devices (lvmthin(7)).
//
// +kubebuilder:validation:Enum=PassDown;NoPassDown
type DiscardMode string

// The modes of discards.
const (
	DiscardsPassDown   DiscardMode = "PassDown"
	DiscardsNoPassDown DiscardMode = "NoPassDown"
)

// AutoExtend controls when and by how much a thin pool is extended.
type AutoExtend struct {
	// thresholdPercent is the usage of data or metadata above which the thin pool is extended.
	// +kubebuilder:validation:Minimum=50
	// +kubebuilder:validation:Maximum=95
	// +kubebuilder:default=80
	ThresholdPercent int `json:"thresholdPercent,omitempty"`

	// stepPercent is the percentage of its size by which the thin pool is extended.
	// +kubebuilder:validation:Minimum=5
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=20
	StepPercent int `json:"stepPercent,omitempty"`
}
