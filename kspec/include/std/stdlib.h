// malloc(), free() and abs() are predefined.
#pragma once
