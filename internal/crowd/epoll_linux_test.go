package crowd

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAStubHasNoDescriptorToCopy(t *testing.T) {
	_, err := (&conn{Conn: new(stub)}).duplicate()
	assert.EqualError(t, err, "crowd: a stub has no descriptor")
}
