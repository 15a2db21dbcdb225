# Read by cpack before it packs: writes the package's documents in Debian's forms, and finds the
# packages of the libraries that the program needs.

set(folder ${CPACK_NYSTROM_FOLDER})
file(REMOVE_RECURSE ${folder})
file(MAKE_DIRECTORY ${folder})

# ---- Documents -----------------------------------------------------------------------------------
file(READ ${CPACK_NYSTROM_SOURCES}/NOTICE notice)
file(WRITE ${folder}/copyright "${notice}
On Debian systems, the Apache License, Version 2.0, is in /usr/share/common-licenses/Apache-2.0.\n")
# of the headers that it compiles in
foreach(package libcli11-dev nlohmann-json3-dev libeigen3-dev libxxhash-dev)
  file(READ /usr/share/doc/${package}/copyright text)
  file(APPEND ${folder}/copyright "\n---- ${package}:\n${text}")
endforeach()
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${folder}/changelog "nystrom (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * The changes of this version are in CHANGELOG.md.gz.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
configure_file(${CPACK_NYSTROM_SOURCES}/CHANGELOG.md ${folder}/CHANGELOG.md COPYONLY)
execute_process(COMMAND gzip -9n ${folder}/changelog ${folder}/CHANGELOG.md
  COMMAND_ERROR_IS_FATAL ANY)

# ---- Dependencies --------------------------------------------------------------------------------
# Only processes that mpirun starts load the module for MPI: its libraries are suggested.
set(files -dDepends ${CPACK_NYSTROM_BUILD}/nystrom)
if(EXISTS ${CPACK_NYSTROM_BUILD}/libnystrom_mpi.so)
  list(APPEND files -dSuggests ${CPACK_NYSTROM_BUILD}/libnystrom_mpi.so)
  set(CPACK_DEBIAN_PACKAGE_SUGGESTS "openmpi-bin, ")
endif()
set(shlibdeps ${CPACK_NYSTROM_BUILD}/package/shlibdeps)
file(WRITE ${shlibdeps}/debian/control "Source: nystrom\n\nPackage: nystrom\nArchitecture: any\n")
execute_process(COMMAND dpkg-shlibdeps -O ${files} WORKING_DIRECTORY ${shlibdeps}
  OUTPUT_VARIABLE found ERROR_VARIABLE messages RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "dpkg-shlibdeps failed:\n${messages}")
endif()
string(REGEX MATCH "shlibs:Depends=([^\n]*)" line "${found}")
set(CPACK_DEBIAN_PACKAGE_DEPENDS "${CMAKE_MATCH_1}")
string(REGEX MATCH "shlibs:Suggests=([^\n]*)" line "${found}")
string(APPEND CPACK_DEBIAN_PACKAGE_SUGGESTS "${CMAKE_MATCH_1}")
