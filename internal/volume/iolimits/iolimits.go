// Package iolimits reads and writes the limits of a VolumeAttributesClass for the I/O of Pods to a volume.
package iolimits

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

const (
	// Unlimited is the value of a parameter without a limit. Kubernetes requires at least one parameter, so a
	// VolumeAttributesClass that removes all limits has such a value.
	Unlimited = "max"
	// None is the text of limits that limit nothing.
	None = "none"
	// maxIOPS is the greatest limit that the kernel does not treat as no limit (block/blk-throttle.c).
	maxIOPS = math.MaxUint32 - 1
	// minBytes is the least limit in bytes per second: a page, so that each request can make progress.
	minBytes = 4096
)

// Limits limit the I/O of each Pod to a volume; 0 is no limit.
type Limits struct {
	// ReadIOPS and WriteIOPS are requests per second.
	ReadIOPS, WriteIOPS int64
	// ReadBytes and WriteBytes are bytes per second.
	ReadBytes, WriteBytes int64
}

// bound is the bounds of a parameter, and its field.
type bound struct {
	least, most int64
	field       func(*Limits) *int64
}

var bounds = map[string]bound{
	wellknown.ReadIOPSParameter:            {1, maxIOPS, func(l *Limits) *int64 { return &l.ReadIOPS }},
	wellknown.WriteIOPSParameter:           {1, maxIOPS, func(l *Limits) *int64 { return &l.WriteIOPS }},
	wellknown.ReadBytesPerSecondParameter:  {minBytes, math.MaxInt64, func(l *Limits) *int64 { return &l.ReadBytes }},
	wellknown.WriteBytesPerSecondParameter: {minBytes, math.MaxInt64, func(l *Limits) *int64 { return &l.WriteBytes }},
}

// parameterNames are the names of the parameters, in the order in which they are written.
var parameterNames = []string{wellknown.ReadIOPSParameter, wellknown.WriteIOPSParameter,
	wellknown.ReadBytesPerSecondParameter, wellknown.WriteBytesPerSecondParameter}

// New returns the limits for the parameters of a VolumeAttributesClass.
func New(parameters map[string]string) (Limits, error) {
	limits := Limits{}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		if err := limits.set(name, parameters[name]); err != nil {
			return Limits{}, err
		}
	}
	return limits, nil
}

func (l *Limits) set(name, text string) error {
	limit, known := bounds[name]
	if !known {
		return fmt.Errorf("the VolumeAttributesClass has the parameter %s, which is not supported: use %s", name,
			strings.Join(parameterNames, ", "))
	}
	if text == Unlimited {
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

// Parse returns the limits for the text in an annotation. "" and "none" are no limits.
func Parse(text string) (Limits, error) {
	parameters := map[string]string{}
	if text == None {
		return Limits{}, nil
	}
	for _, field := range strings.Fields(text) {
		name, value, _ := strings.Cut(field, "=")
		if _, twice := parameters[name]; twice {
			return Limits{}, fmt.Errorf("%q has the limit %s twice", text, name)
		}
		parameters[name] = value
	}
	return New(parameters)
}

// String returns the limits as in an annotation: "readIOPS=500 writeBytesPerSecond=52428800", or "none".
func (l Limits) String() string {
	var fields []string
	for _, name := range parameterNames {
		if value := *bounds[name].field(&l); value != 0 {
			fields = append(fields, name+"="+strconv.FormatInt(value, 10))
		}
	}
	return cmp.Or(strings.Join(fields, " "), None)
}
