// see ../context.h
#pragma once
