package volume

import (
	"testing"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
)

var luksContext = map[string]string{v1alpha1.EncryptionParameter: v1alpha1.EncryptionLUKS2}

func TestEncryptionOfAVolume(t *testing.T) {
	with := service.Encryption{Method: v1alpha1.EncryptionLUKS2}
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
		"requests later version": {context: map[string]string{v1alpha1.EncryptionParameter: "luks3"}, code: codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			v := Volume{ID: id, LV: &proto.LogicalVolume{}}
			if test.tag != "" {
				v.LV.Tags = []string{v1alpha1.EncryptionTagPrefix + test.tag}
			}
			got, err := v.Encryption(test.context)
			if status.Code(err) != test.code || err == nil && got != test.want {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}
