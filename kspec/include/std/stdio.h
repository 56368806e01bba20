// printf() is predefined.
#pragma once
