# Writes a header with the commit of the sources, on each build; an unchanged one keeps its time.
#   cmake -DSOURCE=folder -DOUTPUT=commit.h -P commit.cmake
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --exclude=* --abbrev=12
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  set(commit unknown)  # sources from an archive, or no git
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define NYSTROM_COMMIT \"@commit@\"\n" @ONLY)
