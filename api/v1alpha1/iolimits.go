package v1alpha1

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// Parameters of a VolumeAttributesClass. Each limits the I/O of a Pod to a volume. The value is a quantity, such as 500
// or 50Mi.
const (
	ReadIOPSParameter            = "readIOPS"
	WriteIOPSParameter           = "writeIOPS"
	ReadBytesPerSecondParameter  = "readBytesPerSecond"
	WriteBytesPerSecondParameter = "writeBytesPerSecond"
)

const (
	// NoIOLimit is the value of a parameter without a limit. Kubernetes requires at least one parameter, so a
	// VolumeAttributesClass that removes all limits has such a value.
	NoIOLimit = "max"
	// NoIOLimits is the text of limits that limit nothing.
	NoIOLimits = "none"
	// maxIOPS is the greatest limit that the kernel does not treat as no limit (block/blk-throttle.c).
	maxIOPS = math.MaxUint32 - 1
	// minBytes is the least limit in bytes per second: a page, so that each request can make progress.
	minBytes = 4096
)

// IOLimits limit the I/O of each Pod to a volume; 0 is no limit.
//
// +kubebuilder:object:generate=false
type IOLimits struct {
	// ReadIOPS and WriteIOPS are requests per second.
	ReadIOPS, WriteIOPS int64
	// ReadBytes and WriteBytes are bytes per second.
	ReadBytes, WriteBytes int64
}

// ioLimit is the bounds of a parameter, and its field.
type ioLimit struct {
	least, most int64
	field       func(*IOLimits) *int64
}

var ioLimits = map[string]ioLimit{
	ReadIOPSParameter:            {1, maxIOPS, func(l *IOLimits) *int64 { return &l.ReadIOPS }},
	WriteIOPSParameter:           {1, maxIOPS, func(l *IOLimits) *int64 { return &l.WriteIOPS }},
	ReadBytesPerSecondParameter:  {minBytes, math.MaxInt64, func(l *IOLimits) *int64 { return &l.ReadBytes }},
	WriteBytesPerSecondParameter: {minBytes, math.MaxInt64, func(l *IOLimits) *int64 { return &l.WriteBytes }},
}

// ioParameters are the names of the parameters, in the order in which they are written.
var ioParameters = []string{ReadIOPSParameter, WriteIOPSParameter, ReadBytesPerSecondParameter,
	WriteBytesPerSecondParameter}

// NewIOLimits returns the limits for the parameters of a VolumeAttributesClass.
func NewIOLimits(parameters map[string]string) (IOLimits, error) {
	limits := IOLimits{}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		if err := limits.set(name, parameters[name]); err != nil {
			return IOLimits{}, err
		}
	}
	return limits, nil
}

func (l *IOLimits) set(name, text string) error {
	limit, known := ioLimits[name]
	if !known {
		return fmt.Errorf("the VolumeAttributesClass has the parameter %s, which is not supported: use %s", name,
			strings.Join(ioParameters, ", "))
	}
	if text == NoIOLimit {
		return nil
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return fmt.Errorf("parameter %s of the VolumeAttributesClass is %q: use a number or a quantity, for example "+
			"500 or 50Mi, or max for no limit", name, text)
	}
	value, isInteger := quantity.AsInt64()
	if !isInteger || value < limit.least || value > limit.most {
		return fmt.Errorf("parameter %s of the VolumeAttributesClass is %q: use an integer from %d to %d, or max for "+
			"no limit", name, text, limit.least, limit.most)
	}
	*limit.field(l) = value
	return nil
}

// ParseIOLimits returns the limits for the text in an annotation. "" and "none" are no limits.
func ParseIOLimits(text string) (IOLimits, error) {
	parameters := map[string]string{}
	if text == NoIOLimits {
		return IOLimits{}, nil
	}
	for _, field := range strings.Fields(text) {
		name, value, _ := strings.Cut(field, "=")
		if _, twice := parameters[name]; twice {
			return IOLimits{}, fmt.Errorf("%q has the limit %s twice", text, name)
		}
		parameters[name] = value
	}
	return NewIOLimits(parameters)
}

// String returns the limits as in an annotation: "readIOPS=500 writeBytesPerSecond=52428800", or "none".
func (l IOLimits) String() string {
	var fields []string
	for _, name := range ioParameters {
		if value := *ioLimits[name].field(&l); value != 0 {
			fields = append(fields, name+"="+strconv.FormatInt(value, 10))
		}
	}
	return cmp.Or(strings.Join(fields, " "), NoIOLimits)
}

// IOLimitsRefusal returns why the node refused the requested limits of a LogicalVolume, or "" if it did not.
func IOLimitsRefusal(annotations map[string]string) string {
	reason, refused := strings.CutPrefix(annotations[wellknown.IOLimitsErrorAnnotation],
		annotations[wellknown.IOLimitsAnnotation]+ioLimitsSeparator)
	if !refused {
		return ""
	}
	return reason
}

const ioLimitsSeparator = ": "

// IOLimitsError returns the text of IOLimitsErrorAnnotation for limits that the node refused.
func IOLimitsError(limits, reason string) string { return limits + ioLimitsSeparator + reason }

// IOLimitsPending reports whether the node has not answered a request for limits yet.
func IOLimitsPending(annotations map[string]string) bool {
	desired := annotations[wellknown.IOLimitsAnnotation]
	return desired != "" && annotations[wellknown.IOLimitsInForceAnnotation] != desired &&
		IOLimitsRefusal(annotations) == ""
}
