package volume

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

var luksContext = map[string]string{wellknown.EncryptionParameter: wellknown.EncryptionLUKS2}

func TestEncryptionOfAVolume(t *testing.T) {
	with := service.Encryption{Method: wellknown.EncryptionLUKS2}
	for name, test := range map[string]struct {
		context map[string]string
		tag     string
		want    service.Encryption
		code    codes.Code
	}{
		"not encrypted":          {},
		"requested":              {context: luksContext, want: with},
		"marked, context lost":   {tag: "luks2", want: with},
		"marked and requested":   {context: luksContext, tag: "luks2", want: with},
		"of a later version":     {context: luksContext, tag: "luks3", code: codes.FailedPrecondition},
		"requests later version": {context: map[string]string{wellknown.EncryptionParameter: "luks3"}, code: codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			v := Volume{ID: id, LV: &lvm.LV{}}
			if test.tag != "" {
				v.LV.Tags = []string{wellknown.EncryptionTagPrefix + test.tag}
			}
			got, err := v.Encryption(test.context)
			if status.Code(err) != test.code || err == nil && got != test.want {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}
