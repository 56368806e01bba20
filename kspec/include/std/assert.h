// assert() is predefined.
#pragma once
