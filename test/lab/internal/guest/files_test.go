package guest

import "testing"

func TestUbdIdentity(t *testing.T) {
	const serial = "ID_SERIAL=s1\nID_SERIAL_SHORT=s1\n"
	for wwn, want := range map[string]string{
		"": serial, "0x5123456789abcdef": serial + "ID_WWN=0x5123456789abcdef\n" +
			"ID_WWN_WITH_EXTENSION=0x5123456789abcdef\n",
	} {
		if got := ubdIdentity("s1", wwn); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
