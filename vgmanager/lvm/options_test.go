package lvm

import (
	"errors"
	"strings"
	"testing"
)

func TestNewLayout(t *testing.T) {
	tests := map[string]Layout{
		"":                                  {Type: "linear", Images: 1, Data: 1},
		"--type linear":                     {Type: "linear", Images: 1, Data: 1},
		"--alloc anywhere":                  {Type: "linear", Images: 1, Data: 1},
		"--stripes 1":                       {Type: "linear", Images: 1, Data: 1},
		"--stripes 3 --stripesize 64k":      {Type: "striped", Images: 3, Data: 3},
		"-i 3":                              {Type: "striped", Images: 3, Data: 3},
		"-i3":                               {Type: "striped", Images: 3, Data: 3},
		"--type striped --stripes=2":        {Type: "striped", Images: 2, Data: 2},
		"--type raid0":                      {Type: "raid0", Images: 2, Data: 2},
		"--type raid0_meta -i 4":            {Type: "raid0", Images: 4, Data: 4, Meta: true},
		"--type raid1":                      {Type: "raid1", Images: 2, Data: 1, Meta: true},
		"--type=raid1":                      {Type: "raid1", Images: 2, Data: 1, Meta: true},
		"--type raid1 -m 2":                 {Type: "raid1", Images: 3, Data: 1, Meta: true},
		"--type raid1 -m2":                  {Type: "raid1", Images: 3, Data: 1, Meta: true},
		"--type=raid1 --mirrors=2":          {Type: "raid1", Images: 3, Data: 1, Meta: true},
		"-m 1":                              {Type: "raid1", Images: 2, Data: 1, Meta: true},
		"-m 1 -i 2":                         {Type: "raid10", Images: 4, Data: 2, Meta: true},
		"--type mirror -m 1":                {Type: "raid1", Images: 2, Data: 1, Meta: true},
		"--type raid4":                      {Type: "raid4", Images: 3, Data: 2, Meta: true},
		"--type raid5":                      {Type: "raid5", Images: 3, Data: 2, Meta: true},
		"--type raid5_ls --stripes 3":       {Type: "raid5", Images: 4, Data: 3, Meta: true},
		"--type raid6":                      {Type: "raid6", Images: 5, Data: 3, Meta: true},
		"--type raid6 --stripes 4":          {Type: "raid6", Images: 6, Data: 4, Meta: true},
		"--type raid10":                     {Type: "raid10", Images: 4, Data: 2, Meta: true},
		"--type raid10 -m 1 --stripes 3":    {Type: "raid10", Images: 6, Data: 3, Meta: true},
		"--type raid1 --type raid5":         {Type: "raid5", Images: 3, Data: 2, Meta: true},
		"--type raid1 --nosync --mirrors 1": {Type: "raid1", Images: 2, Data: 1, Meta: true},
		"--type":                            {Type: "linear", Images: 1, Data: 1},
	}
	for options, want := range tests {
		got, err := NewLayout(strings.Fields(options))
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", options, got, err, want)
		}
	}
}

func TestNewLayoutRefusesWhatLVMRefuses(t *testing.T) {
	for _, options := range []string{
		"--type raid10 -m 2", "--type raid10 --mirrors=3 --stripes 2", "--type raid1 --stripes 2", "-m 2 -i 2",
		"--mirrors x", "--stripes=-1", "-i 1000", "-m 99999999999999999999",
	} {
		if got, err := NewLayout(strings.Fields(options)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %+v, %v", options, got, err)
		}
	}
}
