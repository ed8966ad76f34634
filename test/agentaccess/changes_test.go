package agentaccess

// change is a change of an object of the agent's own node.
type change struct {
	// resource is what is patched. object is the name of the object in the test.
	resource, object string
	// what is the text of the row.
	what string
	// body is a JSON merge patch. UID in it is the UID of the object.
	body string
	// allowed is whether the agent of the node may do this. Nobody else may, with the token of an agent.
	allowed bool
	// key is what the change sets, for rows of several keys.
	key string
}

// changes are the changes of objects for which an agent has permission, and what the policies make of it. Each word of
// the policies is in one of them. The objects are in newObjects.
var changes = []change{
	{resource: lvs, object: "lv", allowed: true, what: "annotations that say what it has done: `condition`, " +
		"`trim`, `suspended-devices`, `existing-volume`, `earlier-staged`, `io-limits-in-force`, `io-limits-error` " +
		"(all `lvm.topolvm.io/`)",
		body: `{"metadata":{"annotations":{"lvm.topolvm.io/condition":"x","lvm.topolvm.io/health":"[]","lvm.topolvm.io/trim":"{}",` +
			`"lvm.topolvm.io/suspended-devices":"a","lvm.topolvm.io/existing-volume":"v",` +
			`"lvm.topolvm.io/earlier-staged":"/x","lvm.topolvm.io/io-limits-in-force":"readIOPS=1",` +
			`"lvm.topolvm.io/io-limits-error":"x"}}}`},
	{resource: lvs, object: "moved", allowed: true, what: "annotations `lvm.topolvm.io/fenced`, `fence-error`, " +
		"`copied`: the progress of a move or copy", body: `{"metadata":{"annotations":{"lvm.topolvm.io/fenced":"m",` +
		`"lvm.topolvm.io/fence-error":"in use","lvm.topolvm.io/copied":"{}"}}}`},
	{resource: lvs, object: "moved", allowed: true, what: "removal of the annotations `lvm.topolvm.io/adopt`, `unfence`",
		body: `{"metadata":{"annotations":{"lvm.topolvm.io/adopt":null,"lvm.topolvm.io/unfence":null}}}`},
	{resource: lvs, object: "grouped", allowed: true, what: "annotation `lvm.topolvm.io/group-state`: the state of a " +
		"group snapshot", body: `{"metadata":{"annotations":{"lvm.topolvm.io/group-state":"{}"}}}`},
	{resource: lvs, object: "imported", allowed: true, what: "annotations `lvm.topolvm.io/encryption` and `spread`, " +
		"and label `spread-group-hash`, of an imported volume that has none", body: `{"metadata":{"annotations":` +
		`{"lvm.topolvm.io/encryption":"luks2","lvm.topolvm.io/spread":"node:required:a/b"},` +
		`"labels":{"lvm.topolvm.io/spread-group-hash":"0123"}}}`},
	{resource: lvs, object: "lv", allowed: true, what: "label `app.kubernetes.io/created-by`, if there is none",
		body: `{"metadata":{"labels":{"app.kubernetes.io/created-by":"x"}}}`},
	{resource: lvs, object: "lv", allowed: true, what: "finalizer `topolvm.io/logicalvolume`",
		body: `{"metadata":{"finalizers":["topolvm.io/logicalvolume"]}}`},
	{resource: lvs, object: "classless", allowed: true, what: "the device class, if there is none",
		body: `{"spec":{"deviceClass":"a"}}`},
	{resource: lvs, object: "lv", what: "another device class", body: `{"spec":{"deviceClass":"b"}}`},
	{resource: lvs, object: "classless", what: "the size together with a device class",
		body: `{"spec":{"deviceClass":"a","size":"2Gi"}}`},
	{resource: lvs, object: "classless", what: "the node together with a device class",
		body: `{"spec":{"deviceClass":"a","nodeName":"n2"}}`},
	{resource: lvs, object: "classless", what: "the name together with a device class",
		body: `{"spec":{"deviceClass":"a","name":"other"}}`},
	{resource: lvs, object: "classless", what: "the source together with a device class",
		body: `{"spec":{"deviceClass":"a","source":"other"}}`},
	{resource: lvs, object: "classless", what: "the options of lvcreate together with a device class",
		body: `{"spec":{"deviceClass":"a","lvcreateOptionClass":"other"}}`},
	{resource: lvs, object: "lv", what: "size", body: `{"spec":{"size":"2Gi"}}`},
	{resource: lvs, object: "lv", what: "node", body: `{"spec":{"nodeName":"n2"}}`},
	{resource: lvs, object: "lv", what: "the volume to import, by the annotation `lvm.topolvm.io/import`",
		body: `{"metadata":{"annotations":{"lvm.topolvm.io/import":"another"}}}`},
	{resource: lvs, object: "imported", what: "removal of this annotation",
		body: `{"metadata":{"annotations":{"lvm.topolvm.io/import":null}}}`},
	{resource: lvs, object: "lv", what: "encryption of a volume that is not imported",
		body: `{"metadata":{"annotations":{"lvm.topolvm.io/encryption":"luks2"}}}`},
	{resource: lvs, object: "lv", what: "spread of a volume that is not imported",
		body: `{"metadata":{"annotations":{"lvm.topolvm.io/spread":"node:required:a/b"}}}`},
	{resource: lvs, object: "apart", what: "another spread",
		body: `{"metadata":{"annotations":{"lvm.topolvm.io/spread":"node:preferred:a/b"}}}`},
	{resource: lvs, object: "apart", what: "no spread",
		body: `{"metadata":{"annotations":{"lvm.topolvm.io/spread":null}}}`},
	{resource: lvs, object: "apart", what: "another spread group",
		body: `{"metadata":{"labels":{"lvm.topolvm.io/spread-group-hash":"4567"}}}`},
	{resource: lvs, object: "grouped", what: "request of a group snapshot",
		body: `{"metadata":{"annotations":{"lvm.topolvm.io/group-request":"{\"phase\":\"Keep\"}"}}}`},
	{resource: lvs, object: "grouped", what: "completion of a group snapshot",
		body: `{"metadata":{"annotations":{"lvm.topolvm.io/group-pending":null}}}`},
	{resource: lvs, object: "grouped", what: "removal of `topolvm.io/pendingdeletion`",
		body: `{"metadata":{"annotations":{"topolvm.io/pendingdeletion":null}}}`},
	{resource: lvs, object: "moved", what: "end of a fence",
		body: `{"metadata":{"annotations":{"lvm.topolvm.io/fence":null}}}`},
	{resource: lvs, object: "moved", what: "base of a copy",
		body: `{"metadata":{"annotations":{"lvm.topolvm.io/copy-base":"s2"}}}`},
	{resource: lvs, object: "moved", what: "another volume to adopt",
		body: `{"metadata":{"annotations":{"lvm.topolvm.io/adopt":"t2"}}}`},
	{resource: lvs, object: "moved", what: "end of a move",
		body: `{"metadata":{"annotations":{"lvm.topolvm.io/move":null}}}`},
	{resource: lvs, object: "lv", what: "owner, with which the garbage collector deletes it",
		body: `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"gone","uid":"u"}]}}`},

	{resource: lvStatus, object: "lv", allowed: true, what: "volume ID: the UID of the object",
		body: `{"status":{"volumeID":"UID"}}`},
	{resource: lvStatus, object: "imported", allowed: true, what: "volume ID: the volume in `lvm.topolvm.io/import`",
		body: `{"status":{"volumeID":"existing"}}`},
	{resource: lvStatus, object: "lv", allowed: true, what: "the other fields of the status",
		body: `{"status":{"code":13,"message":"x","currentSize":"1Gi"}}`},
	{resource: lvStatus, object: "lv", what: "another volume ID", body: `{"status":{"volumeID":"somebody-elses"}}`},
	{resource: lvStatus, object: "imported", what: "another volume ID than the one to import",
		body: `{"status":{"volumeID":"somebody-elses"}}`},

	{resource: "nodes", object: "node", allowed: true, what: "annotations below `capacity.topolvm.io/`",
		body: `{"metadata":{"annotations":{"capacity.topolvm.io/a":"1","capacity.topolvm.io/b":null}}}`},
	{resource: "nodes", object: "node", what: "change of another annotation",
		body: `{"metadata":{"annotations":{"a":"2"}}}`},
	{resource: "nodes", object: "node", what: "removal of another annotation",
		body: `{"metadata":{"annotations":{"a":null}}}`},
	{resource: "nodes", object: "node", what: "roles",
		body: `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`},
	{resource: "nodes", object: "node", what: "removal of a label", body: `{"metadata":{"labels":{"zone":null}}}`},
	{resource: "nodes", object: "node", what: "taints, or whether Pods are scheduled",
		body: `{"spec":{"unschedulable":true}}`},
	{resource: "nodes", object: "node", what: "owner, with which the garbage collector deletes it",
		body: `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"gone","uid":"u"}]}}`},

	{resource: "lvmvolumegroupnodestatuses/status.lvm.topolvm.io", object: "status", allowed: true,
		what: "the whole status, for example what devices it reports, and the request for a certificate of this node",
		body: `{"status":{"conditions":[],"agentCertificate":{"request":"x"}}}`},
	{resource: "lvmvolumegroupnodestatuses/status.lvm.topolvm.io", object: "otherStatus",
		what: "that of another node", body: `{"status":{"conditions":[]}}`},

	{resource: "lvmrecoveries/status.lvm.topolvm.io", object: "recovery", allowed: true, what: "the status, also the " +
		"plan. The operator acts on the plan of an import only, if its ID, which is approved, is the hash of its " +
		"content; admission refuses another plan", body: `{"status":{"phase":"Succeeded"}}`},
	{resource: "lvmrecoveries/status.lvm.topolvm.io", object: "succeeded", what: "to continue one that has succeeded",
		body: `{"status":{"phase":"Running"}}`},
	{resource: "lvmrecoveries/status.lvm.topolvm.io", object: "recovery", what: "the condition `ObjectsCreated`, " +
		"which the operator sets", body: `{"status":{"conditions":[{"type":"ObjectsCreated","status":"False",` +
		`"reason":"x","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`},
}

const (
	lvs      = "logicalvolumes.topolvm.io"
	lvStatus = "logicalvolumes/status.topolvm.io"
)
