package view

import (
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// IOLimits are the limits of a volume for the I/O of Pods, as texts of iolimits.Limits. "" is none.
type IOLimits struct {
	// Requested are the limits that the node agent has to apply, and InForce those that it has applied to all Pods that
	// use the volume.
	Requested, InForce string
	// Failed are the limits that the node agent could not apply, and why.
	Failed string
}

// IOLimitsOf returns the limits of a LogicalVolume.
func IOLimitsOf(lv *topolvmv1.LogicalVolume) IOLimits {
	return IOLimits{lv.Annotations[wellknown.IOLimitsAnnotation], lv.Annotations[wellknown.IOLimitsInForceAnnotation],
		lv.Annotations[wellknown.IOLimitsErrorAnnotation]}
}

// Set writes the limits to a LogicalVolume.
func (l IOLimits) Set(lv *topolvmv1.LogicalVolume) {
	set(lv, wellknown.IOLimitsAnnotation, l.Requested)
	set(lv, wellknown.IOLimitsInForceAnnotation, l.InForce)
	set(lv, wellknown.IOLimitsErrorAnnotation, l.Failed)
}

// separator is between limits that could not be applied, and why.
const separator = ": "

// Fail records why the requested limits could not be applied, in at most a number of bytes.
func (l *IOLimits) Fail(reason string, most int) {
	text := l.Requested + separator + reason
	l.Failed = text[:min(len(text), most)]
}

// Refusal returns why the node agent could not apply the requested limits, or "" if it could or has not tried.
func (l IOLimits) Refusal() string {
	reason, refused := strings.CutPrefix(l.Failed, l.Requested+separator)
	if !refused {
		return ""
	}
	return reason
}

// IsPending reports whether the node agent has not answered the request for limits yet.
func (l IOLimits) IsPending() bool {
	return l.Requested != "" && l.InForce != l.Requested && l.Refusal() == ""
}
