// clock() is predefined.
#pragma once
