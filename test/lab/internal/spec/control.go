package spec

// The control socket of the supervisor exchanges these types as JSON over HTTP.

// Step is one line of progress while a lab comes up. Done or Error ends it.
type Step struct {
	Text    string  `json:"text,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	Done    bool    `json:"done,omitempty"`
	Error   string  `json:"error,omitempty"`
}

// States of a node.
const (
	NodeOff     = "off"
	NodeBooting = "booting"
	NodeRunning = "running"
)

// NodeStatus is what the supervisor knows about a node.
type NodeStatus struct {
	Node  `json:",inline"`
	State string `json:"state"`
	PID   int    `json:"pid,omitempty"`
}

// Status is the answer to GET /status.
type Status struct {
	Up     bool         `json:"up"`
	Failed string       `json:"failed,omitempty"`
	Nodes  []NodeStatus `json:"nodes"`
}

// Actions on a node: POST /nodes/NODE/ACTION.
const (
	ActionRestart   = "restart"
	ActionPowerOff  = "poweroff"
	ActionPowerCut  = "powercut"
	ActionStart     = "start"
	ActionReinstall = "reinstall"
)

// DiskRequest adds or changes a disk: POST /nodes/NODE/disks/DISK/VERB.
type DiskRequest struct {
	Kind string `json:"kind,omitempty"`
	Size int64  `json:"size,omitempty"`
	// File is the absolute path of the file with the content of a disk that is taken out or inserted.
	File string `json:"file,omitempty"`
	// Serial is the serial number of a disk that is inserted; empty for a new one.
	Serial string `json:"serial,omitempty"`
}

// Verbs for disks.
const (
	DiskAdd    = "add"
	DiskRemove = "remove"
	DiskGrow   = "grow"
	DiskFail   = "fail"
	DiskHeal   = "heal"
	DiskPull   = "pull"
	DiskPut    = "put"
	DiskTake   = "take"
	DiskInsert = "insert"
)

// EtcdRequest backs up or restores the data of etcd: POST /etcd/VERB.
type EtcdRequest struct {
	// Dir is the absolute path of the folder with the backup.
	Dir string `json:"dir"`
}

// Verbs for etcd.
const (
	EtcdBackUp  = "backup"
	EtcdRestore = "restore"
)

// Failure is the body of an answer that is no success.
type Failure struct {
	Error string `json:"error"`
}
