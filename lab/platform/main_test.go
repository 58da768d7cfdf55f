package platform_test

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/tools/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
