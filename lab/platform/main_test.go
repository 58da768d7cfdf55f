package platform_test

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
