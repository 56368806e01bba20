// What AMD's compiler lacks; there is nothing to do here.
#pragma once
