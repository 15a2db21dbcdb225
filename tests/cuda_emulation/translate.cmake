# cmake -DSOURCE=… -DNAME=… -DOUTPUT=… -P translate.cmake: writes SOURCE as the emulator compiles it.
#
# `__shared__ T x[n];` becomes a reference into the memory of the emulated block, and the body of a
# kernel with launch bounds begins with their check.
file(READ ${SOURCE} text)
string(REGEX REPLACE
  "__shared__ ([A-Za-z_][A-Za-z0-9_:<>, ]*) ([A-Za-z_0-9]+)((\\[[^]]*\\])*);"
  "auto& \\2 = ::nystrom::emulation::shared_variable<\\1\\3>([] {});" text "${text}")
string(REGEX REPLACE
  "__launch_bounds__\\(([^()]*)\\)([^{;]*){"
  "\\2{ ::nystrom::emulation::require_launch_bounds(\\1);" text "${text}")
file(WRITE ${OUTPUT} "#line 1 \"${NAME}\"\n${text}")
